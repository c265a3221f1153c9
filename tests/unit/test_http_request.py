"""The bytes of a request."""

from __future__ import annotations

from typing import Any

import pytest
from yarl import URL

from shoal.errors import SettingsError
from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.failures import InvalidUrlError
from shoal.fetch.http_request import RequestWriter, cookie_header, split_url
from shoal.fetch.transport import FetchRequest
from shoal.settings import Settings

PAGE = "http://shop.example/a"


def jar_with(*lines: str) -> CookieJar:
    jar = CookieJar()
    jar.set(lines, URL(PAGE))
    return jar


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.test?b=1\r\nX: 1", "http://a.test?b=/ HTTP/1.0", "http://a.test\r\n.b.test/"),
        *("http://a.test\0/", "http://a.test /", "http://a.test:80\n/"),
    ],
)
def test_a_url_that_would_smuggle(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        split_url(url)


@pytest.mark.parametrize(
    ("own", "lines", "sent"),
    [
        ("a=1; b=2", (), "a=1; b=2"),
        ("token", ("c=3",), "token; c=3"),
        ("a=1; a=2;b==x", ("c=3",), "a=1; a=2; b==x; c=3"),
        ("a=1; b=2", ("a=3",), "b=2; a=3"),
        ("token", ("token=3",), "token=3"),
        (" ;", ("a=1",), "a=1"),
        ("", (), ""),
    ],
)
def test_own_cookies_are_sent_as_they_are(own: str, lines: tuple[str, ...], sent: str) -> None:
    """Those that the jar does not have: some sites have cookies without names, or two of one name."""
    assert cookie_header(own, jar_with(*lines), URL(PAGE)) == sent


def test_only_blanks_around_a_value_are_left_out() -> None:
    written = RequestWriter(Settings()).write(FetchRequest(PAGE), "/a", "shop.example", jar_with("a=1\u3000"))
    assert "Cookie: a=1\u3000\r\n".encode() in written


@pytest.mark.parametrize("name", ["Host", "Content-Type", "Content-Length", "Transfer-Encoding"])
@pytest.mark.parametrize("where", ["settings", "request"])
def test_no_header_is_there_twice(name: str, where: str) -> None:
    """Two lengths of a body, or two hosts, are how requests are smuggled."""
    headers = {name.upper(): "7"}
    settings = Settings(headers=headers if where == "settings" else {})
    request = FetchRequest(PAGE, "POST", headers if where == "request" else None, b"abc")
    lines = RequestWriter(settings).write(request, "/a", "shop.example", CookieJar()).split(b"\r\n")
    names = [line.partition(b":")[0].lower() for line in lines if b":" in line]
    assert len(names) == len(set(names))
    assert b"Content-Length: 3" in lines
    assert b"transfer-encoding" not in names


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"Authorization": "hunter2\n"}},
        {"user_agent": "hunter2\nX: y"},
        {"headers": {"": "hunter2"}},
    ],
)
def test_settings_that_nobody_has_checked(given: dict[str, Any]) -> None:
    """`load` checks them; a job's may be those that another version has noted."""
    with pytest.raises(SettingsError, match="is not a valid header") as caught:
        RequestWriter(Settings(**given))
    assert "hunter2" not in str(caught.value)

"""No URL with a user or a password is shown, however it is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import yarl
from ada_url import URL
from hypothesis import assume, example, given
from hypothesis import strategies as st

from shoal.model import Failure, Snapshot
from shoal.text import error_line, shown_url, unreadable_url, without_secrets

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to http://me:hunter2@a.example/x?y", "to http://a.example/x?y"),
        ("to //me:hunter2@a.example", "to //a.example"),
        ("HTTP://hunter2@A/ and ftp://me:hunter2@b/", "HTTP://A/ and ftp://b/"),
        ("http://me:p@hunter2@a.example/", "http://a.example/"),
        (r"http:\\\\me:hunter2@a.example/", r"http:\\\\a.example/"),
        (r"http:\\me:hunter2@a.example/", r"http:\\a.example/"),
        ("http:/me:hunter2@a.example/", "http:/a.example/"),
        ("https:me:hunter2@a.example/", "https:a.example/"),
        ("////me:hunter2@a.example/", "////a.example/"),
        ("//me:p@hunter2@a.example", "//a.example"),
        (
            "http://a.example/, http://me:hunter2@b.example/, ws://x:hunter2@c",
            "http://a.example/, http://b.example/, ws://c",
        ),
        ("postgresql://me:hunter2@a.example/db: refused", "postgresql://a.example/db: refused"),
        ("redis://:hunter2@a.example:6379/0", "redis://a.example:6379/0"),
        ("['http://me:hunter2@a.example']", "['http://a.example']"),
        ("http://a/?to=http://me:hunter2@b/", "http://a/?to=http://b/"),
        ("http://a/?to=http%3A%2F%2Fme%3Ahunter2%40b%2F", "http://a/?to=http%3A%2F%2Fb%2F"),
        # not encoded, as they should be
        ("http://me:hun ter2@a.example/", "http://a.example/"),
        ("http://me:p/hunter2@a.example/", "http://a.example/"),
        ("http://me:p?hunter2@a.example/", "http://a.example/"),
        ("http://me:p#hunter2@a.example/", "http://a.example/"),
        # without a scheme
        ("by me:hunter2@a.example:8080", "by a.example:8080"),
        ("by :hunter2@a.example:8080", "by a.example:8080"),
        ("proxy=me:hunter2@a.example", "proxy=a.example"),
        # by name
        ("host=a user=me password=hunter2 dbname=d", "host=a user=me password=… dbname=d"),
        (r"host=a password='hunter2 \'hunter2' dbname=d", "host=a password=… dbname=d"),
        ("password = 'hunter2", "password = …"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=… psql"),
        (
            "Parameters(user='me', password='hunter2', ssl=None)",
            "Parameters(user='me', password=…, ssl=None)",
        ),
        ('{"password": "hunter2"}', '{"password": …}'),
        ("postgresql://a/?password=hunter2&sslmode=off", "postgresql://a/?password=…&sslmode=off"),
        ("wrong name or password: set SHOAL_REDIS_PASSWORD", None),
        ('<input type="password" name="p">', None),
        ('{"a":"b@c.example"}', None),
        ("mailto:me@example.org", None),
        ("http://a.example:8080 and me@example.org", None),
        ("cannot read http://a.example: ask me@example.org", None),
        ("http://[::1]:80/@me", None),
        ("mail me@example.org, see http://a/@me and http://a/?q=x@y", None),
        ("no URL at all", None),
        ("", None),
    ],
)
def test_userinfo_is_taken_out(text: str, shown: str | None) -> None:
    assert without_secrets(text) == (text if shown is None else shown)


@given(
    st.sampled_from(["http:", "https:", "HTTPS:", ""]),
    st.text("/\\\\", max_size=4),
    st.text(
        st.characters(codec="utf-8", exclude_characters="/\\\\?#", exclude_categories=["Z", "C"]), max_size=8
    ),
)
def test_whatever_a_browser_takes_for_a_password_is_gone(scheme: str, slashes: str, user: str) -> None:
    text = f"{scheme}{slashes}{user}:{SECRET}@a.example/"
    try:
        url = URL(text, base="https://base.example/x/")
    except ValueError:
        return
    if SECRET in (url.password, url.username):
        assert SECRET not in without_secrets(text)


PASSWORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=3, max_size=12)


@given(
    PASSWORDS, st.sampled_from(["http", "postgresql", "redis+sentinel", "socks5h", "HTTPS"]), st.booleans()
)
@example("p@ss", "http", False)
@example("12\\@", "postgresql", False)
def test_nothing_of_a_password_is_left(password: str, scheme: str, encoded: bool) -> None:
    """Wherever one of three readers of URLs sees the host, all before it is gone."""
    url = f"{scheme}://me:{quote(password, safe='') if encoded else password}@x.yz:1/-"
    assume("x.yz" in (host_by(URL, url), host_by(urlsplit, url), host_by(yarl.URL, url)))
    bare = f"{scheme}://x.yz:1/-"
    assert shown_url(url) == bare
    if not any(character.isspace() for character in password):
        for text in ("to {}, or //x.yz", "ValueError('{}')", "//x.yz,{} {}"):
            assert without_secrets(text.format(url, url)) == text.format(bare, bare)


def host_by(read: Callable[[str], Any], url: str) -> str | None:
    try:
        found = read(url)
        host: str | None = found.host if isinstance(found, yarl.URL) else found.hostname
    except ValueError:
        return None
    return host


@given(PASSWORDS)
def test_nothing_of_a_password_with_a_name_is_left(password: str) -> None:
    assume("…" not in password)
    quoted = password.replace("\\", r"\\").replace("'", r"\'")
    assert without_secrets(f"password='{quoted}' a=b") == "password=… a=b"
    assert without_secrets(f"f(password={password!r}, a=b)") == "f(password=…, a=b)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:hun\nter2@a.example/", "http://a.example/"),
        ("http://me:\thunter2 hunter2@a.example/", "http://a.example/"),
        ("http://me: hunter2@a.example/", "http://a.example/"),
        ("http://a.example/a b", "http://a.example/a b"),
    ],
)
def test_one_url_may_have_blanks_in_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:12/hunter2@[x/", "http:[x/"),
        ("//me:p@hunter2@a:x", "a:x"),
        ("hunter2:x@a:x", "a:x"),
        ("https:me:hunter2@a:x", "https:a:x"),
        ("a b", "a b"),
    ],
)
def test_all_before_the_last_at_goes_from_what_is_no_url(url: str, shown: str) -> None:
    assert unreadable_url(url) == shown


@pytest.mark.slow
@pytest.mark.parametrize(("head", "tail"), [("", "@x"), ("@ %40 ", "'")])
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "http:",
            "//",
            "@",
            "/",
            "http://a@",
            ":/",
            "a",
            "//a",
            "\\",
            "//a:b",
            "//a:b ",
            "a:",
            "a:b ",
            "//:9",
        ),
        *("password='", 'password="\\', "password=", "password ", "%2f%2fa", "mailto:"),
    ],
)
def test_it_takes_linear_time(piece: str, head: str, tail: str) -> None:
    def seconds(size: int) -> float:
        text = head + piece * (size // len(piece)) + tail
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            without_secrets(text)
            best = min(best, time.process_time() - started)
        return best

    small, large = seconds(20_000), seconds(160_000)
    assert large < 8 * 4 * small + 0.05


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("too\nhigh"), "ValueError: too high"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OSError("no postgresql://me:hunter2@a/b:"), "OSError: no postgresql://a/b:"),
    ],
)
def test_an_error_of_somebody_else_is_one_line(error: BaseException, line: str) -> None:
    assert error_line(error) == line


def test_a_failure_holds_none_whoever_makes_it() -> None:
    assert Failure("policy", f"redirected to http://me:{SECRET}@a/").detail == "redirected to http://a/"
    assert SECRET not in Snapshot(traceback=f"ValueError: http://me:{SECRET}@a/").traceback

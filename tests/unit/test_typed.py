"""URLs as people type them."""

from __future__ import annotations

import pytest

from shoal.admit.sending import listed_url, meant_by, typed_url
from shoal.errors import UrlError
from shoal.testing.fuzz import TARGETS
from shoal.testing.fuzz.trial import Trial


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("example.com", "https://example.com/"),
        (" example.com/path ", "https://example.com/path"),
        ("localhost", "http://localhost/"),
        ("LOCALHOST:8000/x", "http://localhost:8000/x"),
        ("app.localhost?q=1", "http://app.localhost/?q=1"),
        ("127.0.0.1:80", "http://127.0.0.1/"),
        ("10.1", "http://10.0.0.1/"),
        ("[::1]:8080/x", "http://[::1]:8080/x"),
        ("localhost.example", "https://localhost.example/"),
        ("1.example", "https://1.example/"),
        ("http://example.com", "http://example.com/"),
    ],
)
def test_what_lacks_its_scheme_is_https_but_http_for_this_machine_and_addresses(word: str, url: str) -> None:
    assert typed_url(word) == url


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("http//host.test/a", "http://host.test/a"),
        ("https//host.test/a", "https://host.test/a"),
        ("http:/host.test", "http://host.test"),
        ("https:host.test/x", "https://host.test/x"),
        ("http:host", "http://host"),
        ("http:///host.test", "http://host.test"),
        ("http:\\\\host.test\\x", "http://host.test/x"),
        ("http;//host.test", "http://host.test"),
        ("htp://host.test", "http://host.test"),
        ("htps://host.test", "https://host.test"),
        ("ttp://host.test", "http://host.test"),
        ("HTTPS//host.test", "https://host.test"),
        ("hxxp://host.test", "http://host.test"),
        ("http//me:secret@host.test/", "http://host.test/"),
    ],
)
def test_a_mistyped_scheme_is_told_with_what_was_meant(word: str, meant: str) -> None:
    with pytest.raises(UrlError) as told:
        typed_url(word)
    assert str(told.value).endswith(f"is not a URL; did you mean {meant}?")
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "word",
    [
        "http://host.test/a//b", "https://host.test", "http.cat/404", "httpd:8080/x", "http:8080", "https.test//x",
        "http", "htt.test/x", "httpbin.test/http//x", "httpd/status", "http2.test:80", "web:80//x",
    ],
)  # fmt: skip
def test_hosts_that_only_look_like_a_scheme_are_hosts(word: str) -> None:
    assert meant_by(word) is None
    assert typed_url(word).startswith("http")


@pytest.mark.parametrize(
    "word",
    [
        "mailto:me@host.test", "MAILTO:me@host.test", " mailto:me:secret@host.test", "tel:112", "tel:+49-30-1",
        "javascript:void(0)", "javascript:0", "data:text/html,x", "data:,x", "ftp:host.test/x", "sms:1", "about:x",
        "blob:https://host.test/1", "view-source:https://host.test/", "magnet:?xt=x", "urn:isbn:1", "file:x",
    ],
)  # fmt: skip
def test_other_schemes_are_refused_in_one_line(word: str) -> None:
    with pytest.raises(UrlError, match="only http and https") as told:
        typed_url(word)
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("shop.example:8080", "https://shop.example:8080/"),
        ("web:80/x", "https://web:80/x"),
        ("mail:8025", "https://mail:8025/"),
        ("ftp.example.com:8080/x", "https://ftp.example.com:8080/x"),
        ("http://data:8080/", "http://data:8080/"),
        ("me:pw@host.test/", "https://host.test/"),
        ("tel.example/mailto:me@x", "https://tel.example/mailto:me@x"),
    ],
)
def test_a_host_and_its_port_are_no_scheme(word: str, url: str) -> None:
    assert typed_url(word) == url


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ('"https://host.test/a"', "https://host.test/a"),
        ("'host.test/a'", "https://host.test/a"),
        ("<https://host.test/>", "https://host.test/"),
        ("[https://host.test/]", "https://host.test/"),
        ("(host.test)", "https://host.test/"),
        ("“ http://host.test/x ”", "http://host.test/x"),
        ("<'host.test'>", "https://host.test/"),
        (" http://host.test/ ", "http://host.test/"),
        ("[::1]", "http://[::1]/"),
        ("https://host.test/a)", "https://host.test/a)"),
        ("https://host.test/(a)", "https://host.test/(a)"),
    ],
)
def test_quotes_and_brackets_around_a_url_are_no_part_of_it(word: str, url: str) -> None:
    assert typed_url(word) == url


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("host.test", "https://host.test/"),
        ('"host.test:8080/a?b=1"', "https://host.test:8080/a?b=1"),
        ("<http://host.test/>", "http://host.test/"),
        ("münchen.test", "https://xn--mnchen-3ya.test/"),
        ("localhost:8000/a", "http://localhost:8000/a"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("10.0.0.7/a", "http://10.0.0.7/a"),
        ("localhost", "localhost"),
        ("1.2.3", "1.2.3"),
        ("host.test:99999", "host.test:99999"),
        ("host.test some words", "host.test some words"),
        ("1,host.test", "1,host.test"),
        ("3.50", "3.50"),
        ("word", "word"),
        ("mailto:me@host.test", "mailto:me@host.test"),
        ("/relative/path.html", "/relative/path.html"),
    ],
)
def test_a_line_of_a_list_may_lack_its_scheme(line: str, url: str) -> None:
    assert listed_url(line) == url


@pytest.mark.parametrize("fragment", [b"127.1", b"a.", b"1.", b"-", b"localhost."])
def test_the_time_for_a_long_word_grows_with_its_length_only(fragment: bytes) -> None:
    target = TARGETS["typed"]
    with target.open() as run:
        assert Trial(target, run).family(b"", fragment, b"x") is None

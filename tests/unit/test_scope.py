from __future__ import annotations

import pytest

from shoal.admit.scope import Scope
from shoal.errors import SettingsError
from shoal.settings import Settings


def scope(*start_hosts: str, **settings: object) -> Scope:
    return Scope.of(Settings(**settings), start_hosts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://a.example/x", None),
        ("http://a.example/", None),
        ("https://www.a.example/", None),
        ("https://blog.a.example/", "host"),
        ("https://a.example:8443/", "host"),
        ("https://a.example.evil.example/", "host"),
        ("http://b.example:81/", None),
        ("http://b.example/", "host"),
        ("http://c.example/", None),
    ],
)
def test_stays_on_the_sites_of_the_start_urls(url: str, reason: str | None) -> None:
    assert scope("a.example", "b.example:81", "www.c.example").refuses(url, 0) == reason


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://a.example/", None),
        ("https://deep.blog.a.example/", None),
        ("https://a.example:8443/", None),
        ("https://nota.example/", "host"),
        ("https://b.example:81/", None),
        ("https://x.b.example:81/", None),
        ("https://b.example/", "host"),
        ("https://xn--bcher-kva.example/", None),
        ("https://c.example/", None),
        ("https://other.c.example/", "host"),
        ("http://[::1]:80/", None),
        ("http://[::2]/", "host"),
        ("https://start.example/", "host"),
    ],
)
def test_named_hosts_come_with_their_subdomains(url: str, reason: str | None) -> None:
    hosts = ["*.A.example", "b.example:81", "https://bücher.example/", "www.c.example", "[::1]"]
    assert scope("start.example", hosts=hosts).refuses(url, 0) == reason


def test_any_host_lifts_the_limit() -> None:
    assert scope("a.example", any_host=True).refuses("https://b.example/", 0) is None


def test_widen_takes_a_site_in() -> None:
    crawl = scope("a.example")
    crawl.widen("www.b.example")
    assert crawl.refuses("https://b.example/", 0) is None
    assert crawl.refuses("https://x.b.example/", 0) == "host"


def test_named_hosts_cannot_be_widened() -> None:
    crawl = scope(hosts=["a.example"])
    crawl.widen("b.example")
    assert crawl.refuses("https://b.example/", 0) == "host"


def test_patterns() -> None:
    crawl = scope("a.example", allow=["/books/", "/$"], deny=[r"\.pdf$"])
    assert crawl.refuses("https://a.example/", 0) is None
    assert crawl.refuses("https://a.example/books/1", 0) is None
    assert crawl.refuses("https://a.example/music", 0) == "allow"
    assert crawl.refuses("https://a.example/books/1.pdf", 0) == "deny"


def test_depth() -> None:
    crawl = scope("a.example", depth=1)
    assert crawl.refuses("https://a.example/", 1) is None
    assert crawl.refuses("https://a.example/", 2) == "depth"
    assert scope("a.example", depth=0).refuses("https://a.example/", 1) == "depth"


@pytest.mark.parametrize("key", ["allow", "deny"])
def test_a_bad_pattern_is_named(key: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{key}: '\(x' is not a regular expression") as caught:
        scope("a.example", **{key: ["fine", "(x"]})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["", "a b", "http://", "user:secret@a.example:x"])
def test_a_bad_host_is_an_error_without_its_secrets(host: str) -> None:
    with pytest.raises(SettingsError, match=r"^hosts: ") as caught:
        scope(hosts=[host])
    assert "secret" not in str(caught.value)

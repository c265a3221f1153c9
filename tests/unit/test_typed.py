"""URLs as people type them."""

from __future__ import annotations

import pytest

from shoal.admit.typed import typed_url
from shoal.testing.fuzz import TARGETS
from shoal.testing.fuzz.trying import Trial


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


@pytest.mark.parametrize("fragment", [b"127.1", b"a.", b"1.", b"-", b"localhost."])
def test_the_time_for_a_long_word_grows_with_its_length_only(fragment: bytes) -> None:
    target = TARGETS["typed"]
    with target.open() as run:
        assert Trial(target, run).family(b"", fragment, b"x") is None

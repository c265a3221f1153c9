from __future__ import annotations

import pytest

from shoal.admit.identity import fingerprint, host_key, origin, variant


@pytest.mark.parametrize(
    ("url", "host", "site_origin"),
    [
        ("https://a.example/", "a.example", "https://a.example"),
        ("http://a.example/x/y?z=/1", "a.example", "http://a.example"),
        ("http://a.example:8080/x", "a.example:8080", "http://a.example:8080"),
        ("https://[::1]:8080/x", "[::1]:8080", "https://[::1]:8080"),
        ("http://a/", "a", "http://a"),
        ("http://a.example", "a.example", "http://a.example"),
    ],
)
def test_host_key_and_origin(url: str, host: str, site_origin: str) -> None:
    assert host_key(url) == host
    assert origin(url) == site_origin


def test_fingerprints_are_stored_and_must_never_change() -> None:
    assert fingerprint("https://a.example/") == 0x3EB358548D4FF71E
    assert fingerprint("https://a.example/", "POST", b"q=1") == 0x71DA8BD5A58F79BB


def test_fingerprint_tells_requests_apart() -> None:
    url = "https://a.example/"
    different = [
        fingerprint(url),
        fingerprint(url + "b"),
        fingerprint(url, "POST"),
        fingerprint(url, "POST", b"a"),
        fingerprint(url, "POST", b"b"),
        fingerprint(url, "PUT", b"a"),
    ]
    assert len(set(different)) == len(different)
    assert all(0 <= one < 2**63 for one in different)


def test_a_variant_is_told_by_its_meta() -> None:
    assert variant(1, "lamp", {"a": 1}) == 0x724F2BC739196CB8, "stored: it must never change"
    assert variant(1, "lamp", {"sizes": {38: 1, "XL": 2}}) == variant(1, "lamp", {"sizes": {"XL": 2, 38: 1}})
    assert variant(1, "lamp", {38: 1}) != variant(1, "lamp", {39: 1})

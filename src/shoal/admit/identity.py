"""What a URL is called: by politeness (host key), by security (origin), by dedupe (fingerprint of its canonical form).

All take URLs as they are sent, where default ports and userinfo are gone, so slicing is enough.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from shoal.packing import pack_sorted


def host_key(url: str) -> str:
    """The politeness key: the host's name, and ":port" if it is not the scheme's default."""
    return url.split("/", 3)[2]


def origin(url: str) -> str:
    """Scheme, host and port: "https://example.com", "http://example.com:8080"."""
    end = url.find("/", 8)
    return url if end < 0 else url[:end]


def scheme(url: str) -> str:
    """What tells the origins of one host key apart: "http" or "https"."""
    return url.partition(":")[0]


def site(host: str) -> str:
    """The host key without "www.": both spellings are the same site."""
    return host.removeprefix("www.")


def fingerprint(url: str, method: str = "GET", body: bytes | None = None) -> int:
    """63 bits that stand for a request in the seen-set; `url` is canonical. Stored, so this must never change: what a
    canonical form is has changed once, see docs/adr/0023-what-was-published-is-sent.md."""
    data = url.encode("utf-8", "surrogatepass")
    if method != "GET" or body is not None:
        data = b"\n".join((data, method.encode(), body or b""))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


def variant(page: int, handler: str, meta: dict[str, Any] | None) -> int:
    """63 bits that stand for a page together with who handles it, and what it is asked for with."""
    data = b"\n".join((page.to_bytes(8, "big"), handler.encode("utf-8", "surrogatepass"), pack_sorted(meta)))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1

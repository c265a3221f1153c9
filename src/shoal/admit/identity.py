"""Names derived from a URL: host key (politeness), origin (security), registrable domain, fingerprint (deduplication).

All take URLs as they are sent, without default ports and userinfo, so slicing is enough.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from shoal.text import pack_sorted

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def host_key(url: str) -> str:
    """The politeness key: the host's name, and ":port" if it is not the scheme's default."""
    return url.split("/", 3)[2]


def origin(url: str) -> str:
    """Scheme, host and port: "https://example.com", "http://example.com:8080"."""
    end = url.find("/", 8)
    return url if end < 0 else url[:end]


def scheme(url: str) -> str:
    """ "http" or "https": it distinguishes the origins of one host key."""
    return url.partition(":")[0]


def site(host: str) -> str:
    """The host key without "www.": both spellings are the same site."""
    return host.removeprefix("www.")


def fingerprint(url: str, method: str = "GET", body: bytes | None = None) -> int:
    """63 bits that identify a request in the seen-set; `url` is canonical. They are stored, so this must never change.
    (The canonical form has changed once: docs/adr/0023-what-was-published-is-sent.md.)"""
    data = url.encode("utf-8", "surrogatepass")
    if method != "GET" or body is not None:
        data = b"\n".join((data, method.encode(), body or b""))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


def variant(page: int, handler: str, meta: dict[str, Any] | None) -> int:
    """63 bits that identify a page together with its handler and meta."""
    data = b"\n".join((page.to_bytes(8, "big"), handler.encode("utf-8", "surrogatepass"), pack_sorted(meta)))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


# -- the public suffix list
#
# With its private part, so that each customer of a shared host (`shop.myshopify.com`, `someone.github.io`) has a
# domain.


_LABELS = 12  # of a name that are checked; no rule has more than six


@lru_cache(65_536)
def registrable_domain(host: str) -> str:
    """The registrable domain of a host key, without a port: "example.co.uk" for "www.example.co.uk:8080". Empty if
    there is none: an address, a name of one label, or a public suffix itself."""
    name = host if host.startswith("[") else host.partition(":")[0].rstrip(".")
    labels = name.rsplit(".", _LABELS)[-_LABELS:]
    if " " in name:
        return ""  # the host key of items: see items_of
    if name.startswith("[") or labels[-1].isdigit():
        return ""
    return _suffixes().privatesuffix(".".join(labels)) or ""


@lru_cache(4096)
def is_public_suffix(domain: str) -> bool:
    return _suffixes().is_public(domain.lower())


@lru_cache(1)
def _suffixes() -> PublicSuffixList:
    # 250 kB of text, read in 40 ms at the first call.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=True)

"""The public suffix list: under which domain somebody registered a name.

With its private part, so that what customers own under a host of many (`shop.myshopify.com`, `someone.github.io`)
counts as theirs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_LABELS = 12  # no rule of the list has more than six; a name of a thousand labels is not looked through


@lru_cache(65_536)
def registrable_domain(host: str) -> str:
    """The registrable domain of a host key, without a port: "example.co.uk" for "www.example.co.uk:8080". Empty if
    there is none: an address, a name of one label, or a public suffix itself."""
    name = host if host.startswith("[") else host.partition(":")[0].rstrip(".")
    labels = name.rsplit(".", _LABELS)[-_LABELS:]
    if name.startswith("[") or labels[-1].isdigit():
        return ""
    return _suffixes().privatesuffix(".".join(labels)) or ""


@lru_cache(4096)
def is_public_suffix(domain: str) -> bool:
    return _suffixes().is_public(domain.lower())


@lru_cache(1)
def _suffixes() -> PublicSuffixList:
    # 250 kB of text, read in 40 ms by whoever asks first.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=True)

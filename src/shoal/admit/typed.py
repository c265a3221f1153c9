"""URLs as people type them. Pure."""

from __future__ import annotations

import re

from shoal.admit.canonical import Canonicaliser
from shoal.errors import UrlError

# This machine, or a bare address: unlikely to have a certificate.
_LOCAL = re.compile(r"\s*([\w.-]+\.)?(localhost|[\d.]+|\[[^]]*\])([:/?#]|$)", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def has_scheme(word: str) -> bool:
    return _SCHEME.match(word) is not None


def typed_url(word: str) -> str:
    """The canonical URL meant by a word that may lack its scheme: https, or http for this machine and addresses."""
    scheme = _SCHEME.match(word)
    shown = word.rpartition("@")[2]  # what stands before may be a password
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise UrlError(f"{shown}: only http and https can be crawled")
    usual = "http" if _LOCAL.match(word) else "https"
    url = Canonicaliser()(word.strip() if scheme else f"{usual}://{word.strip()}")
    if url is None or " " in word.strip():
        raise UrlError(f"{shown!r} is not a URL: write it as https://example.com/path")
    return url

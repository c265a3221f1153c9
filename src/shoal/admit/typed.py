"""URLs as people type them. Pure."""

from __future__ import annotations

import re

from shoal.admit.sending import sent_url
from shoal.errors import UrlError

_HOST_END = re.compile(r"[:/?#]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def has_scheme(word: str) -> bool:
    return _SCHEME.match(word) is not None


def _is_local(word: str) -> bool:
    """This machine, or a bare address: unlikely to have a certificate."""
    host = _HOST_END.split(word.strip(), maxsplit=1)[0].rstrip(".")
    last = host.rpartition(".")[2].lower()
    return word.strip().startswith("[") or last == "localhost" or last.isdecimal()


def typed_url(word: str) -> str:
    """The URL meant by a word that may lack its scheme: https, or http for this machine and addresses."""
    scheme = _SCHEME.match(word)
    shown = word.rpartition("@")[2]  # what stands before may be a password
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise UrlError(f"{shown}: only http and https can be crawled")
    usual = "http" if _is_local(word) else "https"
    url = sent_url(word.strip() if scheme else f"{usual}://{word.strip()}", routes=True)
    if url is None or " " in word.strip():
        raise UrlError(f"{shown!r} is not a URL: write it as https://example.com/path")
    return url

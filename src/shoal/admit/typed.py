"""URLs as people type them. Pure."""

from __future__ import annotations

import re

from shoal.admit.sending import sent_url
from shoal.errors import UrlError

_HOST_END = re.compile(r"[:/?#]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# What begins nearly as http:// or https:// does: http//host, http:/host, htp://host, https;//host, http:\\host.
_NEARLY = re.compile(r"([A-Za-z]{2,7})(?:([:;.,]?[/\\]{2,}|[:;][/\\])|:(?!\d*(?:[/?#]|$)))(?=[^/\\])")
_LIKE_HTTPS = frozenset(
    {"https", "htps", "htpps", "htttps", "hhttps", "httsp", "hhtps", "ttps", "httpss", "hxxps"}
)
_LIKE_HTTP = frozenset(
    {"http", "htp", "htpp", "htttp", "hhttp", "hhtp", "thtp", "httpp", "ttp", "htt", "hxxp"}
)
# What a browser's address bar takes for a scheme even without slashes. curl sees a user or a host in these.
_OTHER = re.compile(
    r"(mailto|tel|sms|javascript|data|ftps?|sftp|file|about|blob|view-source|wss?|urn|magnet):", re.I
)


def has_scheme(word: str) -> bool:
    return _SCHEME.match(word) is not None


def meant_by(word: str) -> str | None:
    """The URL that was meant by a word whose http:// or https:// is mistyped; None: it is not, or not at all."""
    begin = _NEARLY.match(word)
    if begin is None or begin[0].lower() in ("http://", "https://"):
        return None
    name = begin[1].lower()
    if begin[2] is None and name not in ("http", "https"):
        return None  # host:port and host:word are other things
    for scheme, like in (("https", _LIKE_HTTPS), ("http", _LIKE_HTTP)):
        if name in like:
            return f"{scheme}://{word[begin.end() :]}".replace("\\", "/")
    return None


def _is_local(word: str) -> bool:
    """This machine, or a bare address: unlikely to have a certificate."""
    host = _HOST_END.split(word.strip(), maxsplit=1)[0].rstrip(".")
    last = host.rpartition(".")[2].lower()
    return word.strip().startswith("[") or last == "localhost" or last.isdecimal()


def typed_url(word: str) -> str:
    """The URL meant by a word that may lack its scheme: https, or http for this machine and addresses."""
    scheme = _SCHEME.match(word)
    shown = word.rpartition("@")[2]  # what stands before may be a password
    if meant := meant_by(word.strip()):
        if "@" in meant:
            meant = f"{meant.partition('://')[0]}://{shown}"
        raise UrlError(f"{shown} is not a URL; did you mean {meant}?")
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise UrlError(f"{shown}: only http and https can be crawled")
    if scheme is None and (other := _OTHER.match(word.strip())):
        raise UrlError(
            f"{other[0]} cannot be crawled, only http and https; if it is a host's name, write http://{other[0]}…"
        )
    usual = "http" if _is_local(word) else "https"
    url = sent_url(word.strip() if scheme else f"{usual}://{word.strip()}", routes=True)
    if url is None or " " in word.strip():
        raise UrlError(f"{shown!r} is not a URL: write it as https://example.com/path")
    return url

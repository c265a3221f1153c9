"""xml:base: what the relative URLs of an XML document are resolved against (W3C, XML Base). Pure.

The document's own URL is not known here, so a base may be relative: "/blog/" and "2026/" in it make "/blog/2026/". Who
knows the URL resolves the result against it, and gets the same as by resolving all of them one after the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LENGTH = 2_048  # characters of a base. Beyond: passed over, because every URL in it would become as long
_DEPTH = 32  # bases in one another. Beyond: passed over
_SOME_PAGE = "http://a.invalid/"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:")
_PARTS = re.compile(r"(//[^/?#]*+)?+([^?#]*+)(\?[^#]*+)?+")  # host, path and query
_IGNORED = str.maketrans("", "", "\t\n\r")  # by all parsers of URLs, wherever it stands
_BLANK = "".join(map(chr, range(0x21)))


def resolved(base: str, target: str) -> str:
    """The URL that the target means within the base. It is relative where the base is."""
    from shoal.html.page_links import join

    if not base:
        return target
    if _SCHEME.match(base):
        return join(base, target) or target
    plain = _plain(target)
    if not plain or plain.startswith("//") or _SCHEME.match(plain):
        return target
    parts = _PARTS.match(base)
    assert parts is not None  # each of them may be empty
    host, path, query = parts.groups("")
    match plain[0]:
        case "/":
            return host + plain
        case "?":
            return host + path + plain
        case "#":
            return host + path + query + plain
    return host + _folder(path, has_host=bool(host)) + plain


def inner_base(outer: str, given: str) -> str:
    """The base of an element whose xml:base is `given`. The outer one, if that leads nowhere: "javascript:", junk."""
    if not given:
        return outer
    from shoal.html.page_links import join

    given = _plain(given)
    if not given or len(given) > _LENGTH or join(_SOME_PAGE, given) is None:
        return outer
    base = resolved(outer, given)
    return base if len(base) <= _LENGTH else outer


@dataclass(slots=True)
class _Opened:
    name: str
    base: str
    same: int = 0  # elements of this name that are open within it and have no base of their own


class OpenBases:
    """The bases of the elements that are open. Elements without one leave no trace, so there are never many."""

    def __init__(self) -> None:
        self._open: list[_Opened] = []

    @property
    def current(self) -> str:
        return self._open[-1].base if self._open else ""

    def open(self, name: str, given: str) -> None:
        base = inner_base(self.current, given) if given else self.current
        if base != self.current and len(self._open) < _DEPTH:
            self._open.append(_Opened(name, base))
        elif (at := self._find(name)) is not None:
            self._open[at].same += 1

    def close(self, name: str) -> None:
        """What is open within it ends, too."""
        if (at := self._find(name)) is None:
            return
        if self._open[at].same:
            self._open[at].same -= 1
        else:
            del self._open[at:]

    def _find(self, name: str) -> int | None:
        return next((at for at in range(len(self._open) - 1, -1, -1) if self._open[at].name == name), None)


def _plain(url: str) -> str:
    """As parsers of http URLs see it: without blanks around it, and a backslash is a slash, but not in the query."""
    url = url.translate(_IGNORED).strip(_BLANK)
    if "\\" not in url or _SCHEME.match(url):
        return url
    end = min(at for at in (url.find("?"), url.find("#"), len(url)) if at >= 0)
    return url[:end].replace("\\", "/") + url[end:]


def _folder(path: str, *, has_host: bool) -> str:
    at = path.rfind("/") + 1
    if path[at:].lower().replace("%2e", ".") in (".", ".."):  # "a/.." means "a/../"
        return f"{path}/"
    return path[:at] or ("/" if has_host else "")

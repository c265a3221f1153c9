"""Queries of links and values of forms on pages in a legacy encoding: sent in that encoding, as browsers do (WHATWG
URL, "percent-encode after encoding"). The rest of a URL is always UTF-8."""

from __future__ import annotations

import re
from functools import lru_cache

from shoal.html.decoding import NOT_DECODED, USER_DEFINED

_FOREIGN = re.compile("[^\x00-\x7f]+")
# Bytes that a query may not hold as they are. Some encodings write characters with bytes of ASCII, which it may.
_ESCAPED = {byte: f"%{byte:02X}" for byte in (*range(0x21), *b"\"#'<>", *range(0x7F, 0x100))}
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEPT = 70_000  # characters that are remembered for an encoding: all that most of them have

# GB18030 can write everything; pages that are read as it are mostly in GBK, which cannot.
_WRITTEN_AS = {"gb18030": "gbk"}


def is_legacy(codec: str) -> bool:
    """Whether queries are sent in the page's encoding. From UTF-16, and from what Python cannot write, as UTF-8."""
    return not codec.startswith("utf") and codec not in (NOT_DECODED, USER_DEFINED)


def in_encoding(link: str, codec: str) -> str:
    """The link with its query in the page's encoding. What that cannot write becomes a character reference."""
    if link.isascii():
        return link
    head, mark, rest = link.partition("?")
    if not mark or "#" in head:
        return link
    query, hash_, fragment = rest.partition("#")
    codec = _WRITTEN_AS.get(codec, codec)
    query = _FOREIGN.sub(lambda found: _written(found[0], codec), query)
    return f"{head}?{query}{hash_}{fragment}"


def in_bytes(text: str, codec: str) -> bytes:
    """A form's text in the page's encoding. What that cannot write becomes a character reference."""
    if not is_legacy(codec):
        return _SURROGATE.sub("\ufffd", text).encode()
    codec = _WRITTEN_AS.get(codec, codec)
    euro = b"\x80" if codec == "gbk" else "€".encode(codec, "xmlcharrefreplace")
    return euro.join(part.encode(codec, "xmlcharrefreplace") for part in text.split("€"))


def _written(text: str, codec: str) -> str:
    return text.translate(_writable(codec)).encode(codec).decode("latin-1").translate(_ESCAPED)


@lru_cache(maxsize=64)
def _writable(codec: str) -> _Writable:
    return _Writable(codec)


class _Writable(dict[int, str]):
    """What an encoding has for a character: the same, or a reference to it. Found out as they are met."""

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def __missing__(self, number: int) -> str:
        if len(self) >= _KEPT:
            self.clear()
        self[number] = written = self._write(number)
        return written

    def _write(self, number: int) -> str:
        try:
            chr(number).encode(self._codec)
        except UnicodeEncodeError:
            if self._codec == "gbk" and number == 0x20AC:
                return "%80"  # the euro sign, which Python's table does not have
            return f"%26%23{number if not 0xD800 <= number <= 0xDFFF else 0xFFFD}%3B"
        return chr(number)

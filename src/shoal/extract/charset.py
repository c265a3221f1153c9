"""Which character encoding a body is in, and its text. Nothing in here raises, whatever the bytes are.

The patterns are possessive (`*+`): blanks once taken are not tried in other ways, which with 32,000 of them took
seconds. Labels are looked up in Python's table of aliases first, because `codecs.lookup` remembers every label that
it was ever asked about, and servers can make up as many as they like.
"""

from __future__ import annotations

import codecs
import encodings
import re
from encodings.aliases import aliases
from functools import lru_cache

_PRESCAN = 1024  # where the HTML standard stops looking for <meta charset>
_LONGEST_HEADER = 1024  # characters of a Content-Type that are looked at
_LONGEST_LABEL = 40  # twice the longest there is
_HEADER_CHARSET = re.compile(r"""charset\s*+=\s*+["']?\s*+([^\s"';,]++)""", re.IGNORECASE)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,512}?charset\s*+=\s*+["']?\s*+([^\s"'/>;]++)""", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# Labels that browsers read as a larger encoding than the one they name.
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
# Python also knows codecs that are no text encodings of the web ("base64", "idna", "undefined", …).
_WEB = re.compile(
    r"utf-(8|16-[lb]e)|cp(1250|1251|1252|1253|1254|1255|1256|1257|1258|866|874|932|949)|mac-(roman|cyrillic)|"
    r"iso8859-(\d+)|iso2022_jp|koi8-[ru]|gb18030|big5|big5hkscs|euc_jp|tis-620"
)


_MODULES = frozenset({*aliases.values(), "cp874", "iso8859_1", "koi8_u"})  # of the package `encodings`


@lru_cache(maxsize=256)
def codec_named(label: str) -> str | None:
    """Python's name of the encoding a server or page calls `label`; None if it is none of the web's."""
    if len(label) > _LONGEST_LABEL or not label.isascii():
        return None
    alias = encodings.normalize_encoding(label).lower()
    module = aliases.get(alias, alias)
    if module not in _MODULES:
        return None
    try:
        name = codecs.lookup(module).name
    except LookupError:  # one of another operating system
        return None
    name = _READ_AS.get(name, name)
    return name if _WEB.fullmatch(name) else None


@lru_cache(maxsize=256)
def _codec_of_header(content_type: str) -> str | None:
    found = _HEADER_CHARSET.search(content_type)
    return codec_named(found[1]) if found else None


def codec_of(body: bytes, content_type: str = "") -> str:
    """The Content-Type header decides, then a byte-order mark, then <meta charset>; otherwise it is UTF-8."""
    codec = _codec_of_header(content_type[:_LONGEST_HEADER])
    if codec is not None:
        return codec
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    found = _META_CHARSET.search(body, 0, _PRESCAN)
    codec = codec_named(found[1].decode("latin-1")) if found else None
    if codec is None or codec.startswith("utf-16"):  # a tag that can be read as ASCII is not in UTF-16
        return "utf-8"
    return codec


def without_mark(body: bytes, codec: str) -> bytes:
    """The body without the byte-order mark of its encoding."""
    for mark, name in _BOMS:
        if name == codec and body.startswith(mark):
            return body[len(mark) :]
    return body


def decode(body: bytes, codec: str) -> str:
    return without_mark(body, codec).decode(codec, "replace")

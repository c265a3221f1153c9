"""Decodes bytes as the WHATWG's decoders do: with Python's codecs, and corrections.

Python has the tables of encodings as vendors published them, browsers as pages use them. So every byte of windows-1252
is a character to a browser, 0x80 is the euro sign in GBK, and EUC-JP has the characters of Windows. Nothing here
raises, whatever the bytes are.
"""

from __future__ import annotations

import codecs
import re
from functools import cache

UTF8 = "utf-8"
FALLBACK = "cp1252"
USER_DEFINED = "x-user-defined"  # Python has no such codec
NOT_DECODED = "replacement"  # unsafe encodings: browsers show one U+FFFD instead

_REPLACEMENT = "\ufffd"
_MARKS = {UTF8: codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}

# Names of the standard for which Python has another name, or another meaning.
_PYTHON_NAMES = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-8859-8-i": "iso8859-8",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
}
# Characters that Python decodes differently.
_SINGLE_BYTES = {"cp1255": {0xCA: "\u05ba"}, "koi8-u": {0xAE: "ў", 0xBE: "Ў"}}
_OTHERS = {
    "big5hkscs": str.maketrans("•､‾∼♁☉¥¢£", "‧﹑¯～⊕⊙￥￠￡"),
    "euc_jp": str.maketrans("〜‖−¢£¬", "～∥－￠￡￢"),
    "gb18030": str.maketrans(
        "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7"
        "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
        "\u3000︐︒︑︓︔︕︖︗︘︙ḿ龴龵龶龷龸龹龺龻",
    ),
}
_UTF16 = frozenset({"utf-16-le", "utf-16-be"})
_MULTIBYTE = frozenset({"big5hkscs", "cp932", "cp949", "euc_jp", "gb18030"})
_SIGNS = (b"<", b">", b" ", b"\n")  # none of them is part of a character of several bytes
_HIGH_BIT = bytes(byte | 0x80 for byte in range(256))
_ESCAPE = re.compile(rb"\x1b(\$[@B]|\([BJI])")
_MOST_REPAIRS = 10_000  # characters of a page; with more it is junk


def codec_for(encoding: str) -> str:
    """Python's name of one of the standard's encodings."""
    if encoding in (USER_DEFINED, NOT_DECODED):
        return encoding
    return codecs.lookup(_PYTHON_NAMES.get(encoding, encoding)).name


def mark_of(body: bytes) -> str | None:
    """The codec of the byte-order mark, if there is one."""
    return next((codec for codec, mark in _MARKS.items() if body.startswith(mark)), None)


def without_mark(body: bytes, codec: str) -> bytes:
    """The body without the byte-order mark of its encoding."""
    mark = _MARKS.get(codec)
    return body[len(mark) :] if mark is not None and body.startswith(mark) else body


def decode(body: bytes, codec: str) -> str:
    """The text. Undecodable bytes are replaced; half a character at the end is dropped."""
    body = without_mark(body, codec)
    body = body[: len(body) - half_character(body, codec)]
    if codec in _MARKS:
        return body.decode(codec, "replace")
    if codec == NOT_DECODED:
        return _REPLACEMENT if body else ""
    if codec == "iso2022_jp":
        return _decode_iso2022_jp(body)
    if codec in _MULTIBYTE:
        return _decode_multibyte(body, codec)
    return codecs.charmap_decode(body, "replace", _table(codec))[0]


def utf8(body: bytes, codec: str) -> bytes:
    """The text as UTF-8, for parsers. UTF-8 is not decoded: parsers replace what is invalid."""
    if codec == UTF8:
        body = without_mark(body, codec)
        return body[: len(body) - half_character(body, codec)]
    if codec == FALLBACK and body.isascii():
        return body
    return decode(body, codec).encode("utf-8", "replace")


def half_character(body: bytes, codec: str) -> int:
    """How many bytes at the end belong to an incomplete character."""
    if codec == UTF8:
        tail = body[-3:]
    elif codec in _MARKS:
        tail = body[-(2 + len(body) % 2) :]
    elif codec in _MULTIBYTE:
        tail = body[max(map(body.rfind, _SIGNS)) + 1 :]
    else:
        return 0
    if tail.isascii() and codec not in _UTF16:
        return 0
    decoder = codecs.getincrementaldecoder(codec)("replace")
    decoder.decode(tail)
    return len(decoder.getstate()[0])


@cache
def _table(codec: str) -> str:
    """The characters of all bytes. For browsers, unassigned bytes from 0x80 to 0x9F are control characters."""
    if codec == USER_DEFINED:
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    changed = _SINGLE_BYTES.get(codec, {})
    characters = (changed.get(byte) or bytes((byte,)).decode(codec, "replace") for byte in range(256))
    return "".join(
        chr(byte) if character == _REPLACEMENT and byte < 0xA0 else character
        for byte, character in enumerate(characters)
    )


def _decode_multibyte(body: bytes, codec: str) -> str:
    text = body.decode(codec, "replace")
    if codec in _REPAIRED and 0 < text.count(_REPLACEMENT) <= _MOST_REPAIRS:
        text = body.decode(codec, _REPAIR)
    others = _OTHERS.get(codec)
    return text if others is None else text.translate(others)


def _repair(error: UnicodeError) -> tuple[str, int]:
    """What a browser decodes here, where Python's codec fails."""
    assert isinstance(error, UnicodeDecodeError)
    first, second = error.object[error.start : error.start + 2].ljust(2, b"\0")
    if error.encoding == "gb18030" and first == 0x80:
        return "€", error.start + 1
    if error.encoding == "euc_jp" and 0xA1 <= first <= 0xFE and 0xA1 <= second <= 0xFE:
        return _shift_jis(first - 0xA1, second - 0xA1).decode("cp932", "replace"), error.start + 2
    return _REPLACEMENT, error.end


def _shift_jis(row: int, cell: int) -> bytes:
    """Two rows of JIS X 0208 share a first byte in Shift_JIS."""
    first = row // 2 + (0x81 if row < 62 else 0xC1)
    second = cell + (0x9F if row % 2 else 0x40 if cell < 63 else 0x41)
    return bytes((first, second))


_REPAIR = "shoal.html.repair"
_REPAIRED = frozenset({"euc_jp", "gb18030"})
codecs.register_error(_REPAIR, _repair)


# -- ISO-2022-JP: escapes select the encoding of the bytes after them


def _decode_iso2022_jp(body: bytes) -> str:
    parts, mode, at = list[str](), b"(B", 0
    for escape in _ESCAPE.finditer(body):
        parts.append(_decode_segment(body[at : escape.start()], mode))
        mode, at = escape[1], escape.end()
    parts.append(_decode_segment(body[at:], mode))
    return "".join(parts)


def _decode_segment(segment: bytes, mode: bytes) -> str:
    match mode:
        case b"(B":
            return segment.decode("ascii", "replace")
        case b"(J":
            return segment.decode("ascii", "replace").replace("\\", "¥").replace("~", "‾")
        case b"(I":
            return segment.translate(_HIGH_BIT).decode("cp932", "replace")
        case _:
            return _decode_multibyte(segment.translate(_HIGH_BIT), "euc_jp")

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

REPLACEMENT = "\ufffd"
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
    "cp932": str.maketrans("\uf8f0\uf8f1\uf8f2\uf8f3", "\ufffd" * 4),  # bytes that are no characters
    "euc_jp": str.maketrans("〜‖−¢£¬", "～∥－￠￡￢"),
    "gb18030": str.maketrans(
        "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796\ue7c7"
        "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
        "\u3000︐︒︑︓︔︕︖︗︘︙ḿ龴龵龶龷龸龹龺龻",
    ),
}
# What Big5 has on the web but not in Python, such as HKSCS of 2008: the first bytes of a run, and its characters.
_BIG5_ALSO = (
    "877a 㡵𡵓𣚞𦀡㻬𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌"
    "䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋  "
    "8e69 箸  8e6f 簆  8e7e 糎  8eab 緒  8eb4 縝  8ecd 者  8ed0 耨  8f57 菁  8f69 蒨  8f6e 萏  "
    "8fcb 覦覩  8ffe 起  906d 都  907a 銹  90dc 靜  90f1 響  91bf 鼖  9244 蔃  92af 兙兛兝兞  "
    "92c8 鍮  92d1 瑹  9447 浧  94ca 禛  95d9 邗  9644 靝  96ed 瀞  96fc 嬨  9b76 爁  9b78 矗  "
    "9b7b 纇  9bc6 駖  9bde 釔  9bec 惞  9bf6 澶  9c42 輶  9c53 侻  9c62 營  9c68 鄄  9c6b 鷰  "
    "9c77 菏  9cbc 尐秣  9cd0 婧  9d57 輋  9d5a 筑  9dc4 拐  9ea9 恢  9eef 痹  9efd 汊  9f60 鬮  "
    "9f66 鼗  9fcb 僭  9fd8 弌  a063 蠏  a077 拎  a0d5 瑨  a0df 煢  a0e4 牐  "
    "a3c0 ␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€  c6cf 廴  c6d3 无  c6d5 癶  c6d7 隶  c6de 〃仝  fa5f 倩  "
    "fa66 偽  fabd 包  fac5 卄  fad5 卿  fb48 嘅  fbb8 婷  fbf3 幵  fbf9 廐  fc4f 彘  fc6c 悤  "
    "fcb9 撐  fce2 晴  fcf1 杞  fdb7 沜渝  fdbb 港  fdf1 煮  fe52 猪  fe6f 瑜  feaa 瓩  fedd 砉  "
)
_UTF16 = frozenset({"utf-16-le", "utf-16-be"})
# The first bytes of characters of several bytes.
_LEADS = {
    "big5hkscs": bytes(range(0x81, 0xFF)),
    "cp932": bytes((*range(0x81, 0xA0), *range(0xE0, 0xFD))),
    "cp949": bytes(range(0x81, 0xFF)),
    "euc_jp": bytes((0x8E, 0x8F, *range(0xA1, 0xFF))),
    "gb18030": bytes(range(0x81, 0xFF)),
}
_BIG5_SECOND = (*range(0x40, 0x7F), *range(0xA1, 0xFF))
_SIGNS = (b"<", b">", b" ", b"\n")  # none of them is part of a character of several bytes
_HIGH_BIT = bytes(byte | 0x80 if 0x21 <= byte <= 0x7E else 0xFF for byte in range(256))
_HIGH_KATAKANA = bytes(byte | 0x80 if 0x21 <= byte <= 0x5F else 0xFF for byte in range(256))
_FOUR_BYTES = re.compile(rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]")
_ESCAPE = re.compile(rb"\x1b(\$[@B]|\([BJI])")
_MOST_REPAIRS = 10_000  # characters of a page; with more it is junk
_LONGEST_TAIL = 16 * 1024  # bytes; a text that has no signs for longer is junk, too


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
        return REPLACEMENT if body else ""
    if codec == "iso2022_jp":
        return _decode_iso2022_jp(body)
    if codec in _LEADS:
        return _decode_multibyte(body, codec)
    return codecs.charmap_decode(body, "replace", byte_characters(codec))[0]


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
    elif codec in _LEADS:
        tail = body[max(map(body.rfind, _SIGNS)) + 1 :]
    else:
        return 0
    if tail.isascii() and codec not in _UTF16:
        return 0
    is_repaired = codec in _LEADS and len(tail) <= _LONGEST_TAIL
    decoder = codecs.getincrementaldecoder(codec)(_REPAIR if is_repaired else "replace")
    decoder.decode(tail)
    half = decoder.getstate()[0]
    # Python's GB 18030 waits for more after a euro sign of one byte, too.
    return 0 if codec in _LEADS and half[:1] not in _LEADS[codec] else len(half)


@cache
def byte_characters(codec: str) -> str:
    """The characters of all bytes. For browsers, unassigned bytes from 0x80 to 0x9F are control characters."""
    if codec == USER_DEFINED:
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    changed = _SINGLE_BYTES.get(codec, {})
    characters = (changed.get(byte) or bytes((byte,)).decode(codec, "replace") for byte in range(256))
    return "".join(
        chr(byte) if character == REPLACEMENT and byte < 0xA0 else character
        for byte, character in enumerate(characters)
    )


def _decode_multibyte(body: bytes, codec: str) -> str:
    text = body.decode(codec, "replace")
    if 0 < text.count(REPLACEMENT) <= _MOST_REPAIRS:
        text = body.decode(codec, _REPAIR)
    others = _OTHERS.get(codec)
    return text if others is None else text.translate(others)


def _repair(error: UnicodeError) -> tuple[str, int]:
    """What a browser decodes here, where Python's codec fails."""
    assert isinstance(error, UnicodeDecodeError)
    codec, start = error.encoding, error.start
    bytes_ = error.object[start : start + 4].ljust(4, b"\0")
    first, second = bytes_[:2]
    if codec == "big5hkscs" and (found := _big5_also().get(bytes_[:2])):
        return found, start + 2
    if codec == "gb18030" and first == 0x80:
        return "€", start + 1
    if codec == "euc_jp" and 0xA1 <= first <= 0xFE and 0xA1 <= second <= 0xFE:
        return _shift_jis(first - 0xA1, second - 0xA1).decode("cp932", "replace")[0], start + 2
    return REPLACEMENT, start + _wrong(bytes_, codec)


def _wrong(bytes_: bytes, codec: str) -> int:
    """How many of these bytes, which begin no character, are replaced by one U+FFFD.

    All that would be one if there were such a character, but no byte of ASCII. So the text after them is read as
    browsers do: else the second byte would begin a pair with the third, and so on to the end of the word.
    """
    first, second, third, _ = bytes_
    if first not in _LEADS[codec]:
        return 1
    if codec == "gb18030" and _FOUR_BYTES.match(bytes_):
        return 4
    if second < 0x80:
        return 1
    return 3 if codec == "euc_jp" and first == 0x8F and 0xA1 <= second <= 0xFE and third >= 0x80 else 2


def _shift_jis(row: int, cell: int) -> bytes:
    """Two rows of JIS X 0208 share a first byte in Shift_JIS."""
    first = row // 2 + (0x81 if row < 62 else 0xC1)
    second = cell + (0x9F if row % 2 else 0x40 if cell < 63 else 0x41)
    return bytes((first, second))


@cache
def _big5_also() -> dict[bytes, str]:
    """The characters of pairs that Python does not know."""
    pairs = [bytes((first, second)) for first in range(0x81, 0xFF) for second in _BIG5_SECOND]
    words = _BIG5_ALSO.split()
    found = dict[bytes, str]()
    for start, characters in zip(words[::2], words[1::2], strict=True):
        at = pairs.index(bytes.fromhex(start))
        found |= zip(pairs[at : at + len(characters)], characters, strict=True)
    return found


_REPAIR = "shoal.html.repair"
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
            return _decode_multibyte(segment.translate(_HIGH_KATAKANA), "cp932")
        case _:
            return _decode_multibyte(segment.translate(_HIGH_BIT), "euc_jp")

"""What encoding undeclared text is in: UTF-8 shows by itself, and a detector looks at the rest."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from shoal.html.decoding import FALLBACK, UTF8, codec_for

_SAMPLE = 4 * 1024  # bytes of text that are looked at: some 20 ms, and 100 ms of junk
_WITH_TAGS = 32 * 1024
_FEW = 12  # letters that are not ASCII: too few to tell Latin alphabets apart
_MOSTLY = 0.9

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_TAG = re.compile(rb"<[^<>]*+>")
_WORD = re.compile(rb"[\x80-\xff]{3,}+")
_ESCAPES = (b"\x1b$B", b"\x1b$@")  # of ISO-2022-JP

# What pages without a declaration are in. Of a detector's hundred encodings, the others are wrong guesses.
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859_2")
_OTHER_SCRIPTS = (
    *("cp1251", "koi8_r", "koi8_u", "cp866", "cp1253", "iso8859_7", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)


def guess(body: bytes) -> str:
    """A codec of Python's. What is ASCII is called windows-1252, as in browsers."""
    if body.isascii():
        return "iso2022_jp" if any(escape in body for escape in _ESCAPES) else FALLBACK
    sample = _sample(body)
    if _is_utf8(body, sample):
        return UTF8
    return _detected(sample) or FALLBACK


def _sample(body: bytes) -> bytes:
    """Some text, from the first character on that is not ASCII."""
    first = _NOT_ASCII.search(body)
    start = first.start() if first else 0
    return _TAG.sub(b" ", body[start : start + _WITH_TAGS])[:_SAMPLE]


def _is_utf8(body: bytes, sample: bytes) -> bool:
    """All of it, or so much that the rest must be a mistake. It may end in the middle of a character."""
    try:
        text, _ = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return sum(map(len, _UTF8_CHARACTER.findall(sample))) >= _MOSTLY * _count_not_ascii(sample)
    return not text.isascii()  # if that beginning is all there is, it can be anything


def _count_not_ascii(text: bytes) -> int:
    return len(_NOT_ASCII.findall(text))


def _detected(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes  # when first needed: it takes 40 ms to import

    # In Latin scripts letters that are not ASCII stand alone, in others whole words consist of them.
    not_ascii = _count_not_ascii(sample)
    is_latin = sum(map(len, _WORD.findall(sample))) * 2 <= not_ascii
    if is_latin and not_ascii < _FEW:
        return None
    usual = list(_LATIN if is_latin else _OTHER_SCRIPTS)
    for text in _ends(sample):
        found = from_bytes(text, cp_isolation=usual, preemptive_behaviour=False, enable_fallback=False).best()
        if found is not None:
            return codec_for(found.encoding)
    return None


def _ends(sample: bytes) -> Iterator[bytes]:
    """The sample may end within a character of two bytes."""
    yield sample
    if len(sample) == _SAMPLE:
        yield sample[:-1]

"""Writes text in the legacy encodings, as the WHATWG's encoders do: for queries of links, and for forms.

The tables are those of `decoding`, the other way round. So what a page shows and what its links send fit together, and
what browsers decode in another way than Python, they write in another way, too. Some characters are decoded but not
written: those of HKSCS in Big5, of JIS X 0212 in EUC-JP, and Shift_JIS has some twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import product

from shoal.html.decoding import REPLACEMENT, byte_characters, decode

_ASCII = range(0x80)
_KEPT = 70_000  # characters that are remembered for an encoding: all that most of them have

# The bytes of the pairs that are written, in the standard's order.
_LOW = range(0x40, 0x7F)
_HIGH = range(0xA1, 0xFF)
_PAIRS: dict[str, tuple[Iterable[int], Iterable[int]]] = {
    "big5hkscs": (_HIGH, (*_LOW, *_HIGH)),
    # Rows that hold characters of others (0xED to 0xEF), or those of users (0xF0 to 0xF9), are left out.
    "cp932": ((*range(0x81, 0xA0), *range(0xE0, 0xED), *range(0xFA, 0xFD)), (*_LOW, *range(0x80, 0xFD))),
    "cp949": (range(0x81, 0xFF), range(0x41, 0xFF)),
    "euc_jp": (_HIGH, _HIGH),
    "gb18030": (range(0x81, 0xFF), (*_LOW, *range(0x80, 0xFF))),
}
# Of several pairs for a character the first is written, but for these the last.
_LAST = {"big5hkscs": "═╞╡╪十卅"}
# Characters that are written as others are.
_AS_OTHERS = {
    "cp932": {"−": "－"},
    "euc_jp": {"−": "－"},
    # Where a page has the characters of today, GB 18030 of 2005 had private ones.
    "gb18030": dict(
        zip(
            "\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796"
            "\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864",
            "︐︒︑︓︔︕︖︗︘︙龴龵龶龷龸龹龺龻",
            strict=True,
        )
    ),
}
_HALFWIDTH = range(0xFF61, 0xFFA0)  # katakana
_ROMAN = {"¥": b"\\", "‾": b"~"}
_SINGLE = {
    "big5hkscs": {"∕": b"\xa2\x41", "﹨": b"\xa2\x42"},  # decoded as "／" and "＼", which have other pairs
    "cp932": {"\x80": b"\x80"} | _ROMAN | {chr(n): bytes((n - 0xFEC0,)) for n in _HALFWIDTH},
    "euc_jp": _ROMAN | {chr(n): bytes((0x8E, n - 0xFEC0)) for n in _HALFWIDTH},
    "gb18030": {"€": b"\x80"},  # as GBK: it is the encoding of most pages that are read as GB 18030
}


def encode(text: str, codec: str, reference: str = "&#{};") -> bytes:
    """The text in a legacy encoding. What that cannot write becomes a reference to the character."""
    if codec == "iso2022_jp":
        return _encode_iso2022_jp(text, reference)
    return text.translate(_written(codec, reference)).encode("latin-1")


class _Written(dict[int, str]):
    """What an encoding has for a character: its bytes, as characters of Latin-1, or a reference. Found out when met."""

    def __init__(self, codec: str, reference: str) -> None:
        self._codec, self._reference = codec, reference

    def __missing__(self, number: int) -> str:
        if len(self) >= _KEPT:
            self.clear()
        written = _table(self._codec).get(chr(number))
        self[number] = found = (
            _refer(number, self._reference) if written is None else written.decode("latin-1")
        )
        return found


@lru_cache(maxsize=64)
def _written(codec: str, reference: str) -> _Written:
    return _Written(codec, reference)


def _refer(number: int, reference: str) -> str:
    return reference.format(0xFFFD if 0xD800 <= number <= 0xDFFF else number)


@cache
def _table(codec: str) -> dict[str, bytes]:
    """The bytes of all characters that the encoding writes."""
    if codec not in _PAIRS:
        table = dict[str, bytes]()
        for byte, character in enumerate(byte_characters(codec)):
            table.setdefault(character, bytes((byte,)))
        table.pop(REPLACEMENT, None)
        return table
    table = {chr(byte): bytes((byte,)) for byte in _ASCII}
    last = _LAST.get(codec, "")
    for character, pair in _pairs(codec):
        if character in last:
            table[character] = pair
        else:
            table.setdefault(character, pair)
    table |= {character: table[other] for character, other in _AS_OTHERS.get(codec, {}).items()}
    return table | _SINGLE.get(codec, {})


def _pairs(codec: str) -> Iterator[tuple[str, bytes]]:
    """The characters of two bytes, one for each pair. A line end cannot be part of one."""
    pairs = [bytes(pair) for pair in product(*_PAIRS[codec])]
    for pair, text in zip(pairs, decode(b"\n".join(pairs), codec).split("\n"), strict=True):
        if len(text) == 1 and text != REPLACEMENT:
            yield text, pair


# -- ISO-2022-JP: escapes select the encoding of the bytes after them


_IN_ASCII, _IN_ROMAN, _IN_JIS = b"\x1b(B", b"\x1b(J", b"\x1b$B"
_CONTROLS = "\x0e\x0f\x1b"  # would be taken for escapes
_FULLWIDTH = dict(
    zip(
        map(chr, _HALFWIDTH),
        "。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜",
        strict=True,
    )
)


def _encode_iso2022_jp(text: str, reference: str) -> bytes:
    written, mode = list[bytes](), _IN_ASCII
    for character in text:
        wanted, bytes_ = _in_mode(character, mode, reference)
        if wanted != mode:
            written.append(wanted)
            mode = wanted
        written.append(bytes_)
    if mode != _IN_ASCII:
        written.append(_IN_ASCII)
    return b"".join(written)


def _in_mode(character: str, mode: bytes, reference: str) -> tuple[bytes, bytes]:
    """The mode in which a character is written after this one, and its bytes there."""
    if character in _ROMAN:
        return _IN_ROMAN, _ROMAN[character]
    plain = _IN_ASCII if mode == _IN_JIS else mode
    if character in _CONTROLS:
        return plain, _refer(0xFFFD, reference).encode()
    if character.isascii():
        return _IN_ASCII if character in "\\~" else plain, character.encode()
    pair = _table("euc_jp").get(_FULLWIDTH.get(character, character))
    if pair is None:
        return plain, _refer(ord(character), reference).encode()
    return _IN_JIS, bytes(byte & 0x7F for byte in pair)

"""Text is written in legacy encodings as browsers write it.

Second opinion: the index files of the Encoding standard, of which the digests below were made. (What Chromium sends is
in tests/integration/test_legacy_links.py.)
"""

from __future__ import annotations

import hashlib
import random
import time
from itertools import product

import pytest
import webencodings

from shoal.html.charset import codec_named
from shoal.html.decoding import NOT_DECODED, USER_DEFINED, decode
from shoal.html.encoding import encode
from shoal.html.page_links import in_bytes, in_encoding, is_legacy

NAMES = sorted(set(webencodings.LABELS.values()) - {NOT_DECODED, USER_DEFINED})
# Of the lines "CHARACTER BYTES", in hexadecimal digits, of all characters but ASCII that the standard's encoder writes,
# by its text and index files as of September 2024: how many there are, and the start of their SHA-256.
BY_THE_STANDARD = {
    "big5": (14_653, "57506e62655785b4940d80512785ab4f"),
    "shift_jis": (7_393, "acb344648675b3e07fdf2a7c485575a3"),
    "euc-kr": (17_048, "d8067d8e015161c32a14f70fd3a8ba76"),
    "euc-jp": (7_392, "39d2930d2d7c19c69453ea68dea5e981"),
    "gbk": (23_957, "c4c6c8a55b3fb7c3d6a033d4cba00ee9"),
}


def python_name(label: str) -> str:
    codec = codec_named(label)
    assert codec is not None
    return codec


def is_reference(written: bytes, character: str) -> bool:
    return written == b"&#%d;" % ord(character)


@pytest.mark.slow
@pytest.mark.parametrize("label", BY_THE_STANDARD)
def test_every_character_is_written_as_the_standard_says(label: str) -> None:
    codec, count, digest = python_name(label), 0, hashlib.sha256()
    numbers = range(0x80, 0x30000)  # beyond, no legacy encoding has any
    for number, written in zip(
        numbers, encode("\n".join(map(chr, numbers)), codec).split(b"\n"), strict=True
    ):
        if not written.startswith(b"&#"):
            count += 1
            digest.update(b"%x %s\n" % (number, written.hex().encode()))
    assert (count, digest.hexdigest()[:32]) == BY_THE_STANDARD[label]


# What is read but not written, by the bytes that are read.
ONLY_READ = {
    "big5hkscs": lambda pair: pair[0] < 0xA1,  # HKSCS
    "cp932": lambda pair: 0xF0 <= pair[0] <= 0xF9,  # characters that users made
}


@pytest.mark.parametrize("label", BY_THE_STANDARD)
def test_every_pair_that_is_read_is_written_so_that_it_is_read_again(label: str) -> None:
    codec, same = python_name(label), 0
    for pair in map(bytes, product(range(0x80, 0x100), range(0x40, 0x100))):
        text = decode(pair + b"\n", codec)[:-1]
        if len(text) != 1 or text == "\ufffd":
            continue
        written = encode(text, codec)
        if ONLY_READ.get(codec, lambda _: False)(pair):
            assert is_reference(written, text) or decode(written, codec) == text, pair
            continue
        assert decode(written, codec) == text, pair
        same += written == pair
    assert same > 6_000


@pytest.mark.parametrize("label", [name for name in NAMES if is_legacy(python_name(name))])
def test_every_byte_that_is_a_character_is_written_as_it_was(label: str) -> None:
    codec = python_name(label)
    if codec in ("iso2022_jp", "euc_jp"):  # where bytes from 0x80 to 0xFF mean nothing alone
        return
    for byte in map(bytes, zip(range(0x100))):
        text = decode(byte + b"\n", codec)[:-1]
        if len(text) == 1 and text != "\ufffd":
            assert encode(text, codec) == byte


@pytest.mark.parametrize(
    ("label", "query", "sent"),
    [
        ("euc-jp", "～", "%A1%C1"),
        ("euc-jp", "丂", "%26%2319970%3B"),  # of JIS X 0212
        ("euc-jp", "①−ｱ", "%AD%A1%A1%DD%8E%B1"),
        ("iso-2022-jp", "①", "%1B$B-!%1B(B"),
        ("iso-2022-jp", "a①é~¥a~①", "a%1B$B-!%1B(B%26%23233%3B~%1B(J\\a%1B(B~%1B$B-!%1B(B"),
        ("iso-2022-jp", "ｱﾞ−é", "%1B$B%%22!+!]%1B(B%26%23233%3B"),
        ("iso-2022-jp", "①\x1bx", "%1B$B-!%1B(B%26%2365533%3Bx"),
        ("iso-2022-jp", "①\n\t ① \n", "%1B$B-!%1B(B%20%1B$B-!%1B(B"),
        ("shift_jis", "髙", "%FB%FC"),
        ("shift_jis", "①￢ⅰ−¥‾\x80", "%87@%81%CA%FA@%81|\\~%80"),
        ("shift_jis", "\ue000", "%26%2357344%3B"),
        ("big5", "～", "%A1%E3"),
        ("big5", "Ê䏰", "%26%23202%3B%26%2317392%3B"),  # of HKSCS
        ("big5", "€═十∕", "%A3%E1%F9%F9%A4Q%A2A"),
        ("gbk", "€·—", "%80%A1%A4%A1%AA"),
        ("gbk", "︐\ue78d", "%A6%D9%A6%D9"),
        ("gbk", "\ue5e5\ue7c7😀", "%26%2358853%3B%26%2359335%3B%26%23128512%3B"),
        ("euc-kr", "갂€", "%81A%A2%E6"),
        ("koi8-u", "ўЎ", "%AE%BE"),
        ("windows-1252", "\x81€", "%81%80"),
        ("windows-1255", "\x81\u05ba", "%81%CA"),
        ("windows-874", "\x81", "%81"),
        ("windows-1251", "\ud800", "%26%2365533%3B"),
    ],
)
def test_queries_are_sent_as_browsers_send_them(label: str, query: str, sent: str) -> None:
    assert in_encoding(f"/?q={query}", python_name(label)) == f"/?q={sent}"


def test_a_blank_before_a_fragment_belongs_to_the_query() -> None:
    assert in_encoding("/?① #①", "iso2022_jp") == "/?%1B$B-!%1B(B%20#①"


def test_forms_are_written_with_the_same_tables() -> None:
    assert in_bytes("髙丂é€", "cp932") == b"\xfb\xfc&#19970;&#233;&#8364;"
    assert in_bytes("€～", "gb18030") == b"\x80\xa1\xab"
    assert in_bytes("①¥\\", "iso2022_jp") == b"\x1b$B-!\x1b(J\\\x1b(B\\"
    assert in_bytes("é\ud800", "utf-8") == "é\ufffd".encode()


@pytest.mark.parametrize("label", NAMES)
def test_what_is_written_holds_nothing_but_bytes_and_references(label: str) -> None:
    codec, dice = python_name(label), random.Random(label)
    if not is_legacy(codec):
        return
    for _ in range(300):
        text = "".join(dice.choices("a\\~¥‾漢①ｱ−é\x1b\x0e жñ中가ไש€\ud800😀", k=8))
        link = in_encoding(f"/?{text}é", codec)
        assert link.isascii()
        assert in_encoding(link, codec) == link


@pytest.mark.slow
def test_many_different_characters_take_no_longer_each() -> None:
    text = "".join(map(chr, range(0x10000, 0x30000))) * 2
    for codec in ("cp932", "iso2022_jp", "cp1252"):
        began = time.thread_time()
        in_encoding(f"/?{text}", codec)
        assert time.thread_time() - began < 5, codec

"""Encodings are found as browsers find them. Second opinions: html5lib, w3lib and webencodings."""

from __future__ import annotations

import codecs
import itertools
import random
import re
import time

import pytest
import webencodings
from html5lib import HTMLParser
from html5lib._inputstream import EncodingParser, HTMLBinaryInputStream
from w3lib.encoding import html_to_unicode

from shoal.html.charset import codec_named, codec_of, encoding_named, guess, parsed_meta, prescan
from shoal.html.decoding import FALLBACK, NOT_DECODED, USER_DEFINED, decode, half_character, utf8

LABELS = sorted(webencodings.LABELS)
FALLBACK_NAME = "windows-1252"
PRESCANNED = 1024  # bytes that html5lib prescans
WORDS = (
    "Grüße",
    "Привет",
    "日本語",
    "한국어",
    "中文",
    "Łódź",
    "ελληνικά",
    "שלום",
    "ไทย",
    "سلام",
    "ığş",
    "ķīša",
    "ŵŷ",
    "ĉŝ",
)
UNREADABLE = ("utf-16le", "utf-16be", NOT_DECODED, USER_DEFINED)  # where ASCII is not ASCII


def lookup(label: bytes) -> str | None:
    return encoding_named(label.decode("latin-1"))


def word_in(label: str) -> tuple[str, bytes]:
    """A word that the encoding can write."""
    encoder = webencodings.lookup(label).codec_info.encode
    for word in WORDS:
        try:
            return word, encoder(word)[0]
        except UnicodeError:
            pass
    raise AssertionError(label)


# -- labels


def test_every_label_of_the_standard_is_known() -> None:
    assert len(LABELS) == 228
    for label in LABELS:
        assert encoding_named(f" {label.upper()}\n") == webencodings.lookup(label).name


@pytest.mark.parametrize("name", sorted(set(webencodings.LABELS.values())))
def test_every_encoding_is_read_as_webencodings_reads_it(name: str) -> None:
    codec = codec_named(name)
    assert codec is not None
    if name == NOT_DECODED:
        assert (
            decode(b"any text", codec) == "\ufffd"
        )  # once, by the standard; webencodings says it for every byte
        return
    if name != USER_DEFINED:
        codecs.lookup(codec)
        word, data = word_in(name)
        assert decode(data, codec) == word
    assert decode(b"ab", codec) == webencodings.decode(b"ab", name)[0]


@pytest.mark.parametrize(
    "label",
    [
        "base64",
        "rot13",
        "idna",
        "punycode",
        "undefined",
        "utf-7",
        "unicode_escape",
        "zip",
        "x\0y",
        "utf-32",
        "",
    ],
)
def test_codecs_that_are_not_of_the_web_are_refused(label: str) -> None:
    assert codec_named(label) is None


def test_labels_that_only_servers_know() -> None:
    assert [codec_named(label) for label in ("latin-1", "cp932", "CP949", "utf_8")] == [
        *("cp1252", "cp932", "cp949", "utf-8"),
    ]


# -- characters that browsers and Python read in different ways


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("windows-1252", b"\x80\x81\x8d\x9f", "€\x81\x8dŸ"),  # no byte of it is an error
        ("iso-8859-1", b"\x93x\x94", "“x”"),
        ("ascii", b"\xe9", "é"),
        ("windows-1255", b"\xca\xd9", "\u05ba\ufffd"),
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("iso-8859-8-i", "שלום".encode("iso8859-8"), "שלום"),
        ("tis-620", b"\x80\xa1", "€ก"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("gb2312", b"\x80\xa8\xbc\xd6\xd0", "€ḿ中"),
        ("gbk", b"5 \x80", "5 €"),  # at the very end
        ("gbk", b"\x81\x30\x81\x30", "\x80"),  # four bytes, of GB 18030
        ("euc-jp", b"\xad\xa1\xa1\xc1\x8e\xb1", "①～ｱ"),
        ("euc-jp", b"\xff\xa4\xa2", "\ufffdあ"),
        ("shift_jis", b"\x87\x40\x81\x60\xb1\x5c", "①～ｱ\\"),
        ("iso-2022-jp", b'\x1b$B$"-!\x1b(B~\\\x1b(J~\\\x1b(I1\x1b(Bx\xff', "あ①~\\‾¥ｱx\ufffd"),
        ("euc-kr", b"\x81\x41\xb0\xa1", "갂가"),
        ("big5", b"\xa1\x45\xa4\xa4\x88\x62", "‧中Ê̄"),
        ("big5", b"\xa3\xe1\x87\x7a\x87\xdf\xfe\xdd", "€㡵鿋砉"),
        ("shift_jis", b"\xa0\xfd\xfe\xff\x80", "\ufffd\ufffd\ufffd\ufffd\x80"),
        ("iso-2022-jp", b'\x1b$B$"\x0e1$"\x1b(I1\x61\x1b(B', "あ\ufffd韻\ufffdｱ\ufffd"),
        ("iso-2022-kr", b"any text", "\ufffd"),
        ("hz-gb-2312", b"", ""),
    ],
)
def test_text_is_what_a_browser_shows(label: str, data: bytes, text: str) -> None:
    codec = codec_named(label)
    assert codec is not None
    assert decode(data, codec) == text
    assert utf8(data, codec).decode() == text


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("euc-kr", b"\xd1\x9f\xdf\xf2 z", "\ufffd捿 z"),
        ("euc-kr", b"\xc9A\xff\xb0\xa1", "\ufffdA\ufffd가"),
        ("big5", b"\xb2\x9aAf z", "\ufffdAf z"),
        ("shift_jis", b"\xfc\x9a\xb4 \xff\xa0 z", "\ufffdｴ \ufffd\ufffd z"),
        ("euc-jp", b"\xaf\xd1 z", "\ufffd z"),
        ("euc-jp", b"\xa2\xaf\xa4\xa2", "\ufffdあ"),
        ("euc-jp", b"\x8e\xe0\xa4\xa2", "\ufffdあ"),
        ("euc-jp", b"\x8f\xa1\xa1\xa4\xa2", "\ufffdあ"),
        ("euc-jp", b"\x8f\xa1a\xa4\xa2", "\ufffdaあ"),
        ("gbk", b"\x81\xff\xd6\xd0", "\ufffd中"),
        ("gbk", b"\x84\x32\xa4\x38\xd6\xd0", "\ufffd中"),
        ("gbk", b"\x81\x30\xff\xff\xd6\xd0", "\ufffd0\ufffd\ufffd中"),
        ("iso-2022-jp", b'\x1b$B/Q$"', "\ufffdあ"),
    ],
)
def test_behind_a_wrong_pair_the_text_goes_on_as_in_a_browser(label: str, data: bytes, text: str) -> None:
    codec = codec_named(label)
    assert codec is not None
    assert decode(data, codec) == text
    if codec != "iso2022_jp":
        assert half_character(data + data[:1], codec) == 1


@pytest.mark.parametrize("codec", ["big5hkscs", "cp932", "cp949", "euc_jp", "gb18030"])
def test_junk_is_read_quickly(codec: str) -> None:
    for junk in (b"\xff", b"\x81\xff", b"\xff ", b"\xaf\xd1", b"\x8f\xa1\xff", b"\x81"):
        began = time.thread_time()
        decode(junk * (1_000_000 // len(junk)), codec)
        assert time.thread_time() - began < 3, junk


def test_single_bytes_are_all_characters_or_all_replaced_as_webencodings_says() -> None:
    """It replaces the bytes from 0x80 to 0x9F that Python's tables leave out; the standard does not."""
    for name in sorted(set(webencodings.LABELS.values())):
        codec = codec_named(name)
        assert codec is not None
        if not codec.startswith(("cp12", "cp8", "iso8859", "koi8", "mac")):
            continue
        for byte in range(256):
            ours = decode(bytes((byte,)), codec)
            theirs = webencodings.lookup(name).codec_info.decode(bytes((byte,)), "replace")[0]
            if theirs == "\ufffd" and byte < 0xA0:
                assert ours == chr(byte)
            elif (codec, byte) not in (
                ("cp1255", 0xCA),
                ("koi8-u", 0xAE),
                ("koi8-u", 0xBE),
            ):  # errors of Python's
                assert ours == theirs, (name, byte)


# -- what the document says of itself


PIECES = (
    *(b"<meta ", b"<META\t", b"<a ", b"</a ", b"<!x", b"<?x", b"< ", b"=", b"<title>", b"/>", b">"),
    *(b"charset=", b"charset =", b"charset= ", b"utf-8", b"koi8-r", b"gbk", b"utf-16", b"bogus", b" ", b"/", b"\f"),
    *(b'"', b"'", b"<!--", b"-->", b"--", b"name=x ", b"x\n", b"<p class='a>b'>", b"<meta charset=koi8-r>"),
    *(b"http-equiv=content-type ", b"http-equiv='Content-Type' ", b"http-equiv=x ", b"CHARSET=KOI8-R>"),
    *(b"content='text/html; charset=koi8-r' ", b'content="charset=gbk" ', b"content=charset=utf-8 "),
    *(b"content='charset=\"koi8-r' ", b"content='charset charset=gbk;x' ", b"charset=koi8-r ", b'charset="gbk" '),
)  # fmt: skip


def test_the_prescan_finds_what_html5lib_finds() -> None:
    """Of 40,000 documents put together from pieces of declarations.

    html5lib takes a tag that the bytes end in, which the standard does not: so each document is closed. It takes the
    second of two attributes with the same name, "<!-->" does not end a comment, "<meta/charset=…>" is no tag to it,
    "<metax …>", "<<meta …>" and "</ …>" confuse it, and "<" ends a value: these are below.
    """
    dice = random.Random(7)
    found = 0
    for _ in range(40_000):
        pieces = dice.choices(PIECES, k=dice.randrange(1, 12))
        document = b"".join(pieces).replace(b"<", b" <") + b" '\">--></a>"
        twice = any(
            max(map(tag.lower().count, (b"charset", b"content=", b"http-equiv"))) > 1
            for tag in document.split(b">")
        )
        if twice or b"<!-->" in document or b"<!--->" in document:
            continue
        theirs = EncodingParser(document).getEncoding()
        name = None if theirs is None else "utf-8" if theirs.name.startswith("utf-16") else theirs.name
        assert prescan(document, lookup) == name, document
        found += name is not None
    assert found > 1_500


@pytest.mark.parametrize(
    ("document", "encoding"),
    [
        (b"<meta/charset=koi8-r>", "koi8-r"),
        (b"<<meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=koi8-r<>", None),
        (b"</ <meta charset=koi8-r>", None),
        (b"<metax <meta charset=koi8-r>", None),  # a tag with two attributes
        (b"<meta charset=koi8-r", None),  # the bytes end in it
        (b"<a title='<meta charset=koi8-r>", None),
        (b"<meta charset=koi8-r charset=gbk>", "koi8-r"),
        (b"<meta http-equiv=content-type content='charset=koi8-r' content='charset=gbk'>", "koi8-r"),
        (b"<meta content='charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        (b"<meta content='charset=koi8-r' charset=gbk>", "gbk"),
        (b"<meta charset=bogus content='charset=gbk' http-equiv=content-type>", None),
        (b"<meta charset=bogus><meta charset=gbk>", "gbk"),
        (b"<meta content='charset=koi8-r'>", None),  # is no pragma
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset=utf-16be>", "utf-8"),
        (b"<!-- <meta charset=gbk> --><meta charset=koi8-r>", "koi8-r"),
        (b"<!--><meta charset=koi8-r>", "koi8-r"),
        (b"<?php <meta charset=gbk>", None),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", "koi8-r"),
        (b"<?xml encoding='koi8-r'?><meta charset=gbk>", "gbk"),
        (b"<?xml encoding=koi8-r?>", None),
        (b"<?xml encoding='koi8-r\"?>", None),
        (b'<?xml encoding = "utf-16" ?>', "utf-8"),
        (b" <?xml encoding='koi8-r'?>", None),
        ("<?xml version='1.0'?>".encode("utf-16-le"), "utf-16le"),
        ("<?xml version='1.0'?>".encode("utf-16-be"), "utf-16be"),
    ],
)
def test_the_prescan_to_the_letter(document: bytes, encoding: str | None) -> None:
    assert prescan(document, lookup) == encoding


@pytest.mark.parametrize("media_type", ["text/xml", "application/xml", "application/rss+xml", "text/html"])
def test_every_label_in_an_xml_declaration(media_type: str) -> None:
    for label, quote in itertools.product(LABELS, "\"'"):
        if encoding_named(label) not in UNREADABLE:
            word, data = word_in(label)
            body = (
                f"<?xml version={quote}1.0{quote} encoding={quote}{label}{quote}?><r>".encode()
                + data
                + b"</r>"
            )
            assert f"<r>{word}</r>" in decode(body, codec_of(body, media_type)), label


def test_a_declaration_that_the_parser_meets_later_counts_too() -> None:
    late = b"<title>x</title>" * 100 + b"<meta charset=koi8-r>"
    assert codec_of(late) == "koi8-r"
    assert codec_of(b"<!--" + late) == FALLBACK
    assert codec_of(b" " * 70_000 + late) == FALLBACK


REAL_PIECES = (
    *(b"<meta charset=koi8-r>", b"<meta charset=gbk>", b"<META\tCharset='koi8-r'/>", b"<meta charset=bogus>"),
    *(b"<meta http-equiv=content-type content='text/html; charset=gbk'>", b"<meta ", b"charset=gbk ", b"<plaintext>"),
    *(b"<script>", b"</script>", b"</SCRIPT >", b"<script src=x/>", b"<!--", b"-->", b"--!>", b"<!-->", b"<!--->"),
    *(b"<style>", b"</style>", b"<title>", b"</title >", b"<textarea>", b"</textarea/>", b"<xmp>", b"</xmp>"),
    *(b"</xmpx>", b"<noscript>", b"</noscript>", b"<iframe>", b"</iframe>", b"<noembed>", b"</noembed>"),
    *(b"<a x='", b"'>", b'<a x="', b'">', b"<p>", b"<", b"</", b"<!x", b"<?x", b">", b"x", b"-", b"=", b"/", b" "),
    *(b"<svg>", b"</svg>", b"<svg/>", b"<![CDATA[", b"]]>", b"<a/b='>'>", b"<a ='>", b"<script", b"<!--"),
)  # fmt: skip
# To html5lib, style, script and the like are raw text in HTML only; here in SVG, too.
RAW_IN_SVG = re.compile(rb"<svg>.*<(iframe|noembed|noscript|script|style|textarea|title|xmp)[ />]", re.DOTALL)


def test_further_down_what_counts_is_what_html5lib_parses() -> None:
    """Of documents put together from pieces of elements with text, comments and declarations."""
    dice = random.Random(11)
    found = tried = 0
    while tried < 3_000:
        pieces = dice.choices(REAL_PIECES, k=dice.randrange(2, 9))
        document = b"<!doctype html><body>" + b"x" * PRESCANNED + b"".join(pieces) + b" <p>"
        if b"charset=" not in document or RAW_IN_SVG.search(document):
            continue
        tried += 1
        parser = HTMLParser()
        parser.parse(document, scripting=True, useChardet=False)
        theirs = None if parser.documentEncoding == FALLBACK_NAME else parser.documentEncoding
        assert parsed_meta(document, lookup) == theirs, document
        found += theirs is not None
    assert found > 500


FAR = b"<html><head><title>x</title>" + b"<!-- padding -->" * 80


@pytest.mark.parametrize(
    "text",
    [
        b"<script>var t = \"<meta charset='windows-1251'>\";</script>",
        b"<script><!-- <script> </script> <meta charset=windows-1251> --></script>",
        b"<textarea><meta charset=windows-1251></textarea>",
        b"<title><meta charset=windows-1251></title>",
        b"<xmp></xmpx><meta charset=windows-1251></xmp>",
        b"<style><meta charset=windows-1251></style>",
        b"<noscript><meta charset=windows-1251></noscript>",
        b"<iframe><meta charset=windows-1251></iframe>",
        b"<!-- <meta charset=windows-1251> -->",
        b"<a title='<meta charset=windows-1251>'>",
        b"<svg><![CDATA[ > <meta charset=windows-1251> ]]></svg>",
        b"</meta charset=windows-1251>",
        b"<plaintext><meta charset=windows-1251>",
    ],
)
def test_a_declaration_that_is_text_does_not_count(text: bytes) -> None:
    body = FAR + text + "</head><body><p>Привет, мир".encode()
    assert codec_of(body, "text/html") == "utf-8"
    if not text.startswith(b"<plaintext"):
        assert codec_of(body + b"<p><meta charset=koi8-r>") == "koi8-r"


@pytest.mark.parametrize(
    "text",
    [
        b"<meta charset=koi8-r>",
        b"<!--> <meta charset=koi8-r> -->",
        b"<!-- --!><meta charset=koi8-r> -->",
        b"<script><!--></script><meta charset=koi8-r>",
        b"<svg><script/></svg><meta charset=koi8-r>",
        b"<a/x='>'><meta charset=koi8-r>",
        b"<meta charset=bogus><META CONTENT='charset=KOI8-R' charset=bogus HTTP-EQUIV=Content-Type>",
        b"<meta charset=koi8-r" + b" " * 2_000 + b">",
    ],
)
def test_a_declaration_that_is_an_element_counts(text: bytes) -> None:
    assert codec_of(FAR + text + "Привет, мир".encode()) == "koi8-r"


def test_a_declaration_may_begin_in_the_first_bytes_and_end_behind_them() -> None:
    assert codec_of(b" " * 1_010 + b"<meta charset=koi8-r>") == "koi8-r"


@pytest.mark.parametrize(
    "piece",
    [
        *(
            b"<a ",
            b"x ",
            b"<a>",
            b"<a x='",
            b"<a =",
            b"<",
            b"</",
            b"<!--",
            b"<!-->",
            b"<!--<script>",
            b"<script>",
        ),
        *(
            b"<script></script>",
            b"<title></title>",
            b"</title",
            b"<meta ",
            b"<meta charset ",
            b"<meta charset=x>",
        ),
        *(b"<svg><![CDATA[", b"<meta content='charset=' http-equiv=content-type>", b"="),
    ],
)
@pytest.mark.parametrize("start", [b"<meta charset>", b"<meta charset ", b"<script><meta charset>", b"<svg>"])
def test_to_look_further_down_takes_no_longer_for_junk(start: bytes, piece: bytes) -> None:
    began = time.thread_time()
    parsed_meta((start + piece * 65_536)[: 64 * 1024], lookup)
    assert time.thread_time() - began < 1


# -- who is right, if several say something


MARKS = {
    "": b"",
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
SAID = ("", "utf-8", "windows-1251", "shift_jis", "bogus")


def test_mark_then_header_then_meta_then_xml_declaration() -> None:
    cases = 0
    for mark, header, meta, xml in itertools.product(MARKS, SAID, SAID, SAID):
        content_type = f"text/html; charset={header}" if header else "text/html"
        head = f'<?xml version="1.0" encoding="{xml}"?>' if xml else ""
        head += f"<meta charset={meta}>" if meta else ""
        first = next((said for said in (mark, header, meta, xml) if said not in ("", "bogus")), "utf-8")
        text = f"{head}<p>жш"
        body = MARKS[mark] + text.encode(first)
        assert decode(body, codec_of(body, content_type)) == text, (mark, header, meta, xml)
        html5lib = HTMLBinaryInputStream(body, transport_encoding=header or None, useChardet=False)
        codec = html5lib.charEncoding[0].codec_info.name
        if {mark, header, meta} <= {"", "bogus"}:
            assert codec == FALLBACK  # it reads no XML declarations, and guesses nothing
        else:
            assert body[len(MARKS[mark]) :].decode(codec) == text
        if not (meta and xml) and "bogus" not in (header, meta, xml):
            # Of meta and XML declaration w3lib takes the first, which is always the XML declaration, known or not.
            assert html_to_unicode(content_type, body)[1].removeprefix("\ufeff") == text
        cases += 1
    assert cases == 4 * 5 * 5 * 5


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        (b"{}", "application/json", "utf-8"),
        (b"\xff", "application/problem+json", "utf-8"),
        (b"<a/>", "text/xml", "utf-8"),
        (b"\n<?xml version='1.0' encoding='koi8-r'?><a/>", "text/xml", "koi8-r"),
        (b"<p>", "text/html; x-charset=koi8-r", FALLBACK),
        (b"<p>", 'text/html;CHARSET = " koi8-r ";x', "koi8-r"),
        (b"<p>", "text/html, charset=koi8-r", "koi8-r"),
        (b"", "", FALLBACK),
    ],
)
def test_kinds_of_documents_and_headers(body: bytes, content_type: str, codec: str) -> None:
    assert codec_of(body, content_type) == codec


# -- what says nothing

UNDECLARED = {
    "Москва, столица России, крупнейший по численности населения город страны. Цена указана с учётом доставки.": [
        *("cp1251", "koi8-r", "utf-8"),
    ],
    "東京は日本の首都です。商品の価格は税込みで表示されています。本日のニュースをお届けします。": [
        *("cp932", "euc_jp", "iso2022_jp", "utf-8"),
    ],
    "北京是中华人民共和国的首都。商品价格已包含运费。今天的新闻、天气预报和体育比赛结果在这里。": ["gb18030"],
    "臺北是中華民國的首都。商品價格已包含運費。今天的新聞、天氣預報和體育比賽結果在這裡。": ["big5hkscs"],
    "서울은 대한민국의 수도이다. 상품 가격에는 배송비가 포함되어 있습니다. 오늘의 뉴스를 전해 드립니다.": ["cp949"],
    "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας. Η τιμή του προϊόντος περιλαμβάνει τα μεταφορικά.": ["cp1253"],
    "ירושלים היא בירת ישראל. מחיר המוצר כולל משלוח. חדשות היום, מזג האוויר ותוצאות הספורט.": ["cp1255"],
    "القاهرة هي عاصمة مصر. سعر المنتج يشمل الشحن. أخبار اليوم والطقس ونتائج المباريات.": ["cp1256"],
    "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย ราคาสินค้ารวมค่าจัดส่งแล้ว ข่าววันนี้": ["cp874"],
    "Paris est la capitale de la France. Le prix comprend les frais d’expédition, à côté de l’été.": ["cp1252"],
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Cena výrobku zahrnuje dopravu, dnešní zprávy a počasí.": ["cp1250"],
}  # fmt: skip


@pytest.mark.parametrize("times", [1, 20, 400])
def test_undeclared_text_is_recognised(times: int) -> None:
    for text, names in UNDECLARED.items():
        for codec in names:
            body = (f"<div class=card><a href=/x>{text}</a></div>\n" * times).encode(codec)
            assert decode(body, codec_of(body, "text/html")) == body.decode(codec), (codec, codec_of(body))


def test_a_wrong_byte_in_utf_8_is_a_wrong_byte() -> None:
    assert codec_of("Größe für Mädchen ".encode() * 9 + b"\xe9") == "utf-8"
    assert codec_of(b"caf\xe9") == FALLBACK
    assert codec_of(b"caf\xc3\xa9 \xc3") == "utf-8"


@pytest.mark.parametrize(
    "junk", [b"\xff", b"\x80", b"\xe9 ", b"\xa4\xa2", b"\x1b$B", b"<\xff", b"<meta \xe9", b"\xc3\x28"]
)
def test_to_guess_takes_no_longer_for_much(junk: bytes) -> None:
    guess(junk)  # imports the detector
    began = time.thread_time()
    guess(junk * (4_000_000 // len(junk)))
    assert time.thread_time() - began < 1


# -- what is cut off


@pytest.mark.parametrize(
    ("text", "codec", "cuts"),
    [
        ("a€", "utf-8", {1: 2, 2: 1}),
        ("a😀", "utf-8", {1: 3, 2: 2, 3: 1}),
        ("a😀", "utf-16-le", {1: 3, 2: 2, 3: 1}),
        ("日本", "cp932", {1: 1}),
        ("日本", "euc_jp", {1: 1}),
        ("<p>中 文", "gb18030", {1: 1}),
        ("x😀", "gb18030", {1: 3, 2: 2, 3: 1}),
        ("中文", "big5hkscs", {1: 1}),
        ("한국", "cp949", {1: 1}),
        ("né", "cp1252", {}),
    ],
)
def test_half_a_character_is_left_out(text: str, codec: str, cuts: dict[int, int]) -> None:
    whole = text.encode(codec)
    assert half_character(whole, codec) == 0
    for cut, half in cuts.items():
        body = whole[:-cut]
        assert half_character(body, codec) == half
        assert decode(body, codec) == utf8(body, codec).decode() == text[:-1]
    for size in range(len(whole)):
        assert "\ufffd" not in decode(whole[:size], codec)

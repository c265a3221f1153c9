"""Decides the character encoding of a body, as browsers do. Nothing here raises, whatever the bytes are.

In this order: the byte-order mark, the Content-Type header, the declaration in the document (`prescan`). Without any of
them, text is UTF-8 if it is valid UTF-8; otherwise a detector guesses, where a browser would use windows-1252.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from webencodings.labels import LABELS  # type: ignore[import-untyped]

from shoal.html.decoding import FALLBACK, UTF8, codec_for, mark_of
from shoal.html.media import is_json, is_xml_type, media_type

_PRESCAN = 1024  # where the HTML standard stops looking ahead for <meta charset>
_LATE = 64 * 1024  # … and the parser may still find one: then browsers start again
_LONGEST_HEADER = 1024  # characters of a Content-Type that are looked at
_LONGEST_LABEL = 40  # twice the longest there is
_HEADER_CHARSET = re.compile(r"""(?:^|[;,\s])charset\s*+=\s*+["']?\s*+([^\s"';,]++)""", re.IGNORECASE)
# Labels that servers send though browsers do not know them.
_ALSO = {
    "cp874": "windows-874",
    "cp932": "shift_jis",
    "cp936": "gbk",
    "cp949": "euc-kr",
    "cp950": "big5",
    "eucjp": "euc-jp",
    "latin-1": "windows-1252",
    "utf_8": "utf-8",
}
_BLANK = "\t\n\f\r "


@lru_cache(maxsize=256)
def encoding_named(label: str) -> str | None:
    """The WHATWG name of the encoding with this label; None if there is none."""
    if len(label) > _LONGEST_LABEL or not label.isascii():
        return None
    label = label.strip(_BLANK).lower()
    return LABELS.get(label) or _ALSO.get(label)


def codec_named(label: str) -> str | None:
    """Python's name of the encoding with this label; None if the web has none."""
    name = encoding_named(label)
    return None if name is None else codec_for(name)


def codec_of(body: bytes, content_type: str = "") -> str:
    """The encoding of a body, by Python's name (or "x-user-defined" or "replacement", which Python lacks)."""
    return (
        mark_of(body) or _codec_of_header(content_type[:_LONGEST_HEADER]) or _codec_inside(body, content_type)
    )


@lru_cache(maxsize=256)
def _codec_of_header(content_type: str) -> str | None:
    found = _HEADER_CHARSET.search(content_type)
    return codec_named(found[1]) if found else None


def _codec_inside(body: bytes, content_type: str) -> str:
    """By the declaration in the document, or by its bytes."""
    media = media_type(content_type)
    if is_json(media):
        return UTF8  # always, by its standard
    declared = _xml_declared(body) if is_xml_type(media) else _html_declared(body)
    if declared is not None:
        return codec_for(declared)
    return UTF8 if is_xml_type(media) and body.isascii() else guess(body)


def _html_declared(body: bytes) -> str | None:
    return prescan(body[:_PRESCAN], _lookup) or parsed_meta(body[:_LATE], _lookup)


def _xml_declared(body: bytes) -> str | None:
    """The declared encoding of XML. Feeds may have blanks before the declaration."""
    head = body[:_PRESCAN].lstrip()
    return utf16_xml(head) or xml_encoding(head, _lookup)


def _lookup(label: bytes) -> str | None:
    return encoding_named(label.decode("latin-1"))


# -- the declaration in the first bytes of a document ("prescan a byte stream" of the HTML standard)
#
# Every step starts where the last one ended, and the patterns are possessive, so the time is linear. If a step finds no
# end, the bytes end there and nothing is declared.


_SPACES = {b"b": rb"\t\n\f\r "}
_META = re.compile(rb"<meta[%(b)b/]" % _SPACES, re.IGNORECASE)
_TAG_NAME = re.compile(rb"</?[a-zA-Z][^%(b)b>]*+" % _SPACES)
_TAG_END = re.compile(rb"[%(b)b/]*+>" % _SPACES)
# A name may begin with "=". A value that begins with ">" is empty, and the tag ends there.
_ONE = (
    rb"""
    [%(b)b/]*+ (?P<name> [^%(b)b/>][^%(b)b/>=]*+ )
    (?:
        [%(b)b]*+ = [%(b)b]*+
        (?: "(?P<double>[^"]*+)" | '(?P<single>[^']*+)' | (?P<bare>[^%(b)b>"'][^%(b)b>]*+) | (?=>) )
    |
        (?! [%(b)b]*+ = )
    )
    """.replace(b" ", b"").replace(b"\n", b"")
    % _SPACES
)
_ATTRIBUTE = re.compile(_ONE)
_REST_OF_TAG = re.compile(b"(?:%b)*+" % re.sub(rb"\?P<\w+>", b"?:", _ONE) + _TAG_END.pattern)
_CHARSET = re.compile(rb"charset[%(b)b]*+=[%(b)b]*+" % _SPACES, re.IGNORECASE)
_LABEL = re.compile(rb"""(?:"([^"]*+)"|'([^']*+)'|([^%(b)b;"'][^%(b)b;]*+))""" % _SPACES)
_XML_LABEL = re.compile(rb"""[\0-\x20]*+=[\0-\x20]*+(?:"([^"\0-\x20]*+)"|'([^'\0-\x20]*+)')""")
_UTF16 = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))

Lookup = Callable[[bytes], str | None]  # from a label to the name of an encoding


def prescan(head: bytes, lookup: Lookup) -> str | None:
    """The encoding that a <meta> declares, or else an XML declaration at the very beginning."""
    return utf16_xml(head) or _declared(head, lookup) or xml_encoding(head, lookup)


def utf16_xml(head: bytes) -> str | None:
    """UTF-16 without a byte-order mark, recognised by an XML declaration."""
    return next((name for start, name in _UTF16 if head.startswith(start)), None)


def xml_encoding(head: bytes, lookup: Lookup) -> str | None:
    """The encoding that an XML declaration names."""
    end = head.find(b">") if head.startswith(b"<?xml") else -1
    at = head.find(b"encoding", 0, end) if end > 0 else -1
    found = _XML_LABEL.match(head, at + len(b"encoding"), end) if at >= 0 else None
    return _readable(lookup(found[1] or found[2] or b"")) if found else None


def _declared(head: bytes, lookup: Lookup) -> str | None:
    at = 0
    while (at := head.find(b"<", at)) >= 0:
        if head.startswith(b"<!--", at):
            at = _past(head, b"-->", at + 2)  # "<!-->" is a comment, too
        elif _META.match(head, at):
            attributes, at = _attributes(head, at + len(b"<meta"))
            if at >= 0 and (found := _declared_by(attributes, lookup)):
                return found
        elif tag := _TAG_NAME.match(head, at):
            at = _past_tag(head, tag.end())
        elif head.startswith((b"<!", b"</", b"<?"), at):
            at = _past(head, b">", at)
        else:
            at += 1
        if at < 0:
            return None
    return None


def _past(head: bytes, mark: bytes, at: int) -> int:
    found = head.find(mark, at)
    return found + len(mark) if found >= 0 else -1


def _past_tag(head: bytes, at: int) -> int:
    """The position after the tag; -1: the bytes end in it."""
    found = _REST_OF_TAG.match(head, at)
    return found.end() if found else -1


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes, of which the first of a name counts, and the position after the tag."""
    attributes = dict[bytes, bytes]()
    while found := _ATTRIBUTE.match(head, at):
        at = found.end()
        attributes.setdefault(
            found["name"].lower(), found["double"] or found["single"] or found["bare"] or b""
        )
    end = _TAG_END.match(head, at)
    return attributes, end.end() if end else -1


def _declared_by(attributes: dict[bytes, bytes], lookup: Lookup, *, parsed: bool = False) -> str | None:
    """What a <meta> declares. To the parser, a charset that nobody knows is as good as none."""
    charset = attributes.get(b"charset")
    found = lookup(charset) if charset is not None else None
    if charset is None or (parsed and found is None):
        is_pragma = attributes.get(b"http-equiv", b"").lower() == b"content-type"
        found = lookup(_label_in(attributes.get(b"content", b""))) if is_pragma else None
    return "windows-1252" if found == "x-user-defined" else _readable(found)


def _label_in(content: bytes) -> bytes:
    """The label in "text/html; charset=utf-8"; b"" if there is none."""
    found = _CHARSET.search(content)
    label = _LABEL.match(content, found.end()) if found else None
    return label[1] or label[2] or label[3] or b"" if label else b""


def _readable(encoding: str | None) -> str | None:
    """A declaration that can be read as ASCII is not in UTF-16: then it is UTF-8."""
    return "utf-8" if encoding in ("utf-16le", "utf-16be") else encoding


# -- a declaration further down
#
# The prescan takes the text of a script or a title for tags, and may: few pages have such text in their first bytes.
# Further down it would find the <meta> that a script writes, and the page would be read in a wrong encoding. So there
# only a start tag counts, as the standard's tokenizer finds them.


# Elements with text instead of tags. <noscript> is one where scripts run. (In SVG and MathML they are elements like
# others, but nobody declares an encoding in them.)
_RAW_TEXT = b"iframe noembed noframes noscript script style textarea title xmp".split()
_RAW_END = {name: re.compile(rb"</%b(?=[%b/>])" % (name, _SPACES[b"b"])) for name in _RAW_TEXT}
_PARSED_TAG = re.compile(rb"<(/?[a-z][^%(b)b/>]*+)" % _SPACES)
_COMMENT_END = re.compile(rb"--!?>")
_SCRIPT_PART = re.compile(rb"<!--|-->|<script(?=[%(b)b/>])|</script(?=[%(b)b/>])" % _SPACES)
_FOREIGN = (b"svg", b"math")  # with CDATA, and where "/>" ends an element


def parsed_meta(head: bytes, lookup: Lookup) -> str | None:
    """The encoding that a <meta> declares, which is one to the parser: not in a script, a comment or the like."""
    head = head.lower()
    first = head.find(b"<meta")
    if first < 0 or head.find(b"charset", first) < 0:
        return None  # as on most pages, which so are not read twice
    at, is_foreign = 0, False
    while at >= 0 and (at := head.find(b"<", at)) >= 0:
        tag = _PARSED_TAG.match(head, at)
        if tag is None:
            at = _past_other(head, at, is_foreign)
            continue
        name = tag[1]
        if name == b"meta":
            attributes, at = _attributes(head, tag.end())
            if at >= 0 and (found := _declared_by(attributes, lookup, parsed=True)):
                return found
            continue
        at = _past_tag(head, tag.end())
        is_empty = head.endswith(b"/>", 0, at)
        if name.removeprefix(b"/") in _FOREIGN:
            is_foreign = name in _FOREIGN and not is_empty
        elif name in _RAW_END and at >= 0 and not (is_foreign and is_empty):
            at = _script_end(head, at) if name == b"script" else _start(_RAW_END[name].search(head, at))
        elif name == b"plaintext":
            return None
    return None


def _past_other(head: bytes, at: int, is_foreign: bool) -> int:
    """The position after a comment, or what counts as one; -1: there is no end."""
    if head.startswith((b"<!-->", b"<!--->"), at):
        return _past(head, b">", at)
    if head.startswith(b"<!--", at):
        end = _COMMENT_END.search(head, at + 4)
        return end.end() if end else -1
    if is_foreign and head.startswith(b"<![cdata[", at):
        return _past(head, b"]]>", at)
    return _past(head, b">", at) if head.startswith((b"<!", b"</", b"<?"), at) else at + 1


def _script_end(head: bytes, at: int) -> int:
    """Where a script ends. After "<!--", a "<script" needs an end of its own ("script data double escaped state")."""
    is_escaped = is_double = False
    while part := _SCRIPT_PART.search(head, at):
        at = part.end()
        match part[0]:
            case b"<!--":
                at -= 2  # "<!-->" is a comment, too
                is_escaped = True
            case b"-->":
                is_escaped = is_double = False
            case b"<script":
                is_double = is_escaped
            case _ if is_double:
                is_double = False
            case _:
                return part.start()
    return -1


def _start(found: re.Match[bytes] | None) -> int:
    return found.start() if found else -1


# -- the encoding of undeclared text: UTF-8 is recognised by its bytes, a detector guesses the others


_SAMPLE = 4 * 1024  # bytes of text that the detector gets: some 20 ms, and 100 ms for junk
_WITH_TAGS = 32 * 1024
_FEW = 12  # letters that are not ASCII: too few to distinguish Latin alphabets
_MOSTLY = 0.9

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_TAG = re.compile(rb"<[^<>]*+>")
_WORD = re.compile(rb"[\x80-\xff]{3,}+")
_ESCAPES = (b"\x1b$B", b"\x1b$@")  # of ISO-2022-JP

# The encodings of pages without a declaration. Other guesses of the detector are wrong.
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859_2")
_OTHER_SCRIPTS = (
    *("cp1251", "koi8_r", "koi8_u", "cp866", "cp1253", "iso8859_7", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)


def guess(body: bytes) -> str:
    """The codec of undeclared text. ASCII counts as windows-1252, as in browsers."""
    if body.isascii():
        return "iso2022_jp" if any(escape in body for escape in _ESCAPES) else FALLBACK
    sample = _sample(body)
    if _is_utf8(body, sample):
        return UTF8
    return _detected(sample) or FALLBACK


def _sample(body: bytes) -> bytes:
    """Some text, from the first character that is not ASCII."""
    first = _NOT_ASCII.search(body)
    start = first.start() if first else 0
    return _TAG.sub(b" ", body[start : start + _WITH_TAGS])[:_SAMPLE]


def _is_utf8(body: bytes, sample: bytes) -> bool:
    """Whether it is UTF-8, with few errors at most. It may end in the middle of a character."""
    try:
        text, _ = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        return sum(map(len, _UTF8_CHARACTER.findall(sample))) >= _MOSTLY * _count_not_ascii(sample)
    return not text.isascii()  # a single incomplete character can be anything


def _count_not_ascii(text: bytes) -> int:
    return len(_NOT_ASCII.findall(text))


def _detected(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes  # when first needed: it takes 40 ms to import

    # In Latin scripts letters that are not ASCII are single; in others whole words consist of them.
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
    """The sample, and without its last byte: it may end within a character of two bytes."""
    yield sample
    if len(sample) == _SAMPLE:
        yield sample[:-1]

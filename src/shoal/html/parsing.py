"""Parsing within a budget of CPU time.

Some HTML takes a parser forever: <rt> or <svg></x> or <b></i> thousands of times, attributes added to <body> again and
again, formatting that is reopened in every block. A list of such shapes with estimated costs is never complete, so the
time is measured. lexbor cannot be interrupted, but it can read a document in pieces: a page that may be costly is first
read in small pieces, and when its time is used up the rest is cut off. Then the page is parsed as usual. One case
cannot be measured in time, a tag with very many attributes, because its whole cost comes with its last byte: such tags
are searched in the bytes (`attribute_bombs.py`).

Parsing prefixes of doubling size would need only lexbor's parser, but a page can spend its first half on making the
second one costly, so a prefix says nothing about the next one.

Small pages, and pages with few tags, are parsed at once.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from selectolax import lexbor
from selectolax.lexbor import LexborHTMLParser

# Every tag can cost some nanoseconds for every byte before it. The worst known case, formatting elements that are
# copied into every block, takes 80 ms for this many tags x bytes.
_HARMLESS = 8 * 1024 * 1024
_SMALL = 24 * 1024  # bytes; not enough attributes to hurt
_FEW_TAGS = 300

# Bytes read at a time. Where many formatting elements are open, few bytes can cost much time and memory; and the later
# they are read, the more each of their tags can cost.
_PIECE = 256
_SMALL_PIECE = 16
_LARGE_PIECE = 1024
_MEDIUM = 64 * 1024  # a smaller page cannot have too many of them open for a piece
_LARGE = 256 * 1024  # a larger page is not read in large pieces
_FEW_FORMATS = 40
_MANY_FORMATS = 200
# A formatting element with attributes; if they are simple, the whole tag. (First whether its name can be one: nearly
# all tags are others.)
_FORMAT = re.compile(
    rb"<(?=[bcefinstu][a-z]{0,5}+[ \t\n\r\f/])(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[ \t\n\r\f/])"
    rb"""((?:[ \t\n\r\f]++[\w-]++(?:="[^"<>]*+"|='[^'<>]*+'|=[\w./:#-]++)?+)++[ \t\n\r\f]*+>)?""",
    re.IGNORECASE,
)

# What a page may cost, compared with ordinary markup: five times its own length plus 128 KB.
_TIMES = 5
_FLOOR = 128 * 1024
_SAMPLE = b'<div class="card"><h3><a href="/item/1">Title</a></h3><ul><li>one<li>two</ul><p>text &amp; text</p></div>\n'


class _Lexbor:
    """The functions of lexbor that read a document in pieces. Selectolax contains them, but has no API for them."""

    def __init__(self) -> None:
        library = ctypes.PyDLL(lexbor.__file__)
        pointer, size, status = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint

        def function(name: str, result: Any, *arguments: Any) -> Any:
            try:
                found = getattr(library, name)
            except AttributeError:
                raise ImportError(
                    f"this build of selectolax ({lexbor.__file__}) has no {name}, without which Shoal cannot bound"
                    " the time that a page takes: install it from its wheel"
                ) from None
            found.restype, found.argtypes = result, arguments
            return found

        self.create = function("lxb_html_parser_create", pointer)
        self.init = function("lxb_html_parser_init", status, pointer)
        self.begin = function("lxb_html_parse_chunk_begin", pointer, pointer)
        self.read = function("lxb_html_parse_chunk_process", status, pointer, pointer, size)
        self.end = function("lxb_html_parse_chunk_end", status, pointer)
        self.destroy_document = function("lxb_html_document_destroy", pointer, pointer)
        self.destroy = function("lxb_html_parser_destroy", pointer, pointer)


_lexbor = _Lexbor()

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as in malloc.h


def _keep_memory() -> None:
    """Lets the C library keep some memory for the next page. A parsed page takes a hundred kilobytes. glibc gives them
    back to the system after each page, and has them cleared again for the next one, which takes as long as parsing it.
    Blocks beyond the second number still go back at once. Other C libraries have no such function."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        mallopt(_TRIM_THRESHOLD, 8 * 1024 * 1024)
        mallopt(_MMAP_THRESHOLD, 1024 * 1024)


_keep_memory()


def parse(html: bytes) -> tuple[LexborHTMLParser, int]:
    """The document, and how many of its bytes were parsed: nearly always all."""
    kept = affordable(html)
    return LexborHTMLParser(html[:kept]), kept


def affordable(html: bytes) -> int:
    """How many bytes can be parsed in the time of a page."""
    has_many = _has_more_tags(html, max(_FEW_TAGS, _HARMLESS // max(1, len(html))))
    if len(html) > _SMALL:
        from shoal.html.attribute_bombs import crowded_tag

        html = html[: crowded_tag(html)]
    if not has_many:
        return len(html)  # as most pages are
    return _read_in_time(html)


def _has_more_tags(html: bytes, most: int) -> bool:
    """The same as `html.count(b"<") > most`, in a sixth of the time: `replace` looks for the next one with memchr, and
    `count` at every byte."""
    return b"<" in html.replace(b"<", b">", most)


def allowance(size: int) -> float:
    """Seconds of CPU for parsing a page of `size` bytes."""
    return (size + _FLOOR) * _TIMES * _ordinary_cost(_PIECE)


def stopwatch(times: float = 1.0) -> Callable[[int], bool]:
    """A function that says whether the time for `size` bytes, counted from now, is used up. `times` multiplies it."""
    allowance(0)  # the first call measures this machine, which takes a moment
    began = time.thread_time()
    return lambda size: time.thread_time() - began > times * allowance(size)


@cache
def _ordinary_cost(piece: int) -> float:
    """Seconds for a byte of ordinary markup on this machine, read in pieces of that size."""
    sample = _SAMPLE * 2_500

    def once() -> float:
        began = time.thread_time()
        _read(sample, piece, 1.0, 1.0)
        return time.thread_time() - began

    return min(once() for _ in range(3)) / len(sample)


def _read_in_time(html: bytes) -> int:
    """How far the page was read when its time was up, or its length. A moment in which a virtual machine stood still
    counts as CPU time, so a page that seems too costly is read once more: if it is, it is so again."""
    piece = _piece_for(html)
    calling = _ordinary_cost(piece) - _ordinary_cost(_PIECE) if piece < _PIECE else 0.0  # our own overhead
    allowed, for_a_byte = allowance(0), allowance(1) - allowance(0) + calling
    kept = _read(html, piece, allowed, for_a_byte)
    return kept if kept == len(html) else max(kept, _read(html, piece, allowed, for_a_byte))


def _piece_for(html: bytes) -> int:
    size, formats = len(html), _different_formats(html)
    if formats <= _FEW_FORMATS and size <= _LARGE:
        return _LARGE_PIECE
    return _SMALL_PIECE if formats > _MANY_FORMATS and size > _MEDIUM else _PIECE


def _different_formats(html: bytes) -> int:
    """An upper bound for the formatting elements that are open at once. Of equal ones a parser keeps three."""
    formats = _FORMAT.findall(html)
    plain = set(formats) - {b""}
    return len(plain) + formats.count(b"")


def _read(html: bytes, piece: int, allowed: float, for_a_byte: float) -> int:
    """Reads a page until it has taken longer than `allowed` plus `for_a_byte` for every byte read."""
    address = ctypes.cast(ctypes.c_char_p(html), ctypes.c_void_p).value or 0
    parser = _lexbor.create()
    document = None
    try:
        if _lexbor.init(parser) != 0 or not (document := _lexbor.begin(parser)):
            raise MemoryError
        clock, cpu, read, size = time.perf_counter, time.thread_time, _lexbor.read, len(html)
        spent, began = cpu(), clock()
        for at in range(0, size, piece):
            if read(parser, address + at, min(piece, size - at)) != 0:
                return at
            # perf_counter is cheaper to read, and never behind the CPU clock.
            until = allowed + at * for_a_byte
            if clock() - began > until and cpu() - spent > until:
                return at
        return size
    finally:
        if document:
            _lexbor.end(parser)
            _lexbor.destroy_document(document)
        _lexbor.destroy(parser)

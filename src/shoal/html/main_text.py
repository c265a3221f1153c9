"""The main text of a page, without menus and footers: as plain text, or as Markdown. By trafilatura (extra `text`).

It takes some 10 ms for an ordinary page, and as long as it likes for a hostile one. So it runs in a process of its own
(`spider/text_process.py`), for which this module is the program: `python -m shoal.html.main_text`.
"""

from __future__ import annotations

import resource
import signal
import struct
import sys
from typing import Any, BinaryIO, Literal

import msgspec
from msgspec import Struct

from shoal.html.page_links import join
from shoal.html.parsing import parse
from shoal.limits import MAIN_TEXT, MAIN_TEXT_MEMORY

Form = Literal["text", "markdown"]

_PERMALINKS = "//a[contains(@class, 'headerlink')]"  # the ¶ behind headings of documentation
_LENGTH = struct.Struct("<I")


class Question(Struct, frozen=True, array_like=True):
    html: str
    base: str  # of its links
    form: Form


class Answer(Struct, frozen=True, array_like=True):
    text: str = ""
    error: str = ""


def main_text(html: str, base: str, form: Form) -> str:
    """The main text. "" if the page has none. `base`: what its links are relative to."""
    from trafilatura import extract
    from trafilatura.utils import load_html

    # As a browser reads it: what has no <html> is a page, too, which trafilatura would refuse.
    whole, _ = parse(html[:MAIN_TEXT].encode("utf-8", "replace"))
    tree = load_html(whole.html)
    if tree is None:
        return ""
    markdown = form == "markdown"
    if markdown:
        _make_absolute(tree, base)
    found = extract(
        tree,
        url=base,
        output_format="markdown" if markdown else "txt",
        include_links=markdown,
        include_comments=False,
        favor_recall=True,  # otherwise short lists in the middle of a text are left out
        prune_xpath=_PERMALINKS,
    )
    return found or ""


def _make_absolute(tree: Any, base: str) -> None:
    """trafilatura takes links to be relative to the host, and not to the page; and fails if one is no URL."""
    for link in tree.iter("a"):
        href = link.attrib.pop("href", None)
        if href and (url := join(base, href)):
            link.set("href", url)


# -- messages between the two processes: a length, and MessagePack


def write_message(stream: BinaryIO, message: Question | Answer) -> None:
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_message(stream: BinaryIO) -> bytes | None:
    """None: the other side has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def serve(source: BinaryIO, target: BinaryIO, seconds: float) -> None:
    """Answers questions until there are no more. The system ends a process that has used up its time for a page."""
    import logging

    import trafilatura  # noqa: F401  # before the first page, whose time it would take

    logging.disable(logging.CRITICAL)  # what trafilatura says about pages
    resource.setrlimit(resource.RLIMIT_AS, (MAIN_TEXT_MEMORY, MAIN_TEXT_MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the crawl, which ends this process when it ends
    while (data := read_message(source)) is not None:
        asked = msgspec.msgpack.decode(data, type=Question)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = Answer(main_text(asked.html, asked.base, asked.form))
        except Exception as error:  # of a library, on whatever the web has
            answer = Answer(error=f"{type(error).__name__}: {error}"[:300])
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_message(target, answer)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer, float(sys.argv[1]))

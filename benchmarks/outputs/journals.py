"""The journal of an output that is a file, by its suffix, as a crawl makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.sink import make_journal
from shoal.sink.outputs import FORMATS

SUFFIXES = tuple(
    suffix.removeprefix(".") + end
    for about in FORMATS.values()
    for suffix in about.suffixes[:1]
    for end in ("", ".gz", ".zst")
    if about.suffixes and (about.compressible or not end)
)


def open_journal(path: Path) -> Any:
    return make_journal([str(path)], job="job")

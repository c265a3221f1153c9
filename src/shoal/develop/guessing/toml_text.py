"""Texts from pages in a TOML file: as strings, and in remarks."""

from __future__ import annotations

import json

from shoal.text.humanize import printable

_WIDTH = 90  # characters of a remark


def quoted(text: str) -> str:
    """A string of TOML."""
    if ("\\" in text or '"' in text) and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(printable(text), ensure_ascii=False)


def remark_text(text: str) -> str:
    """In one line, and short: what a page says cannot become a line of the file."""
    return " ".join(printable(text[: 4 * _WIDTH]).split())[:_WIDTH]

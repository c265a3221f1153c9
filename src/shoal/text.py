"""Text that people and stores get to see: without what may be secret."""

from __future__ import annotations

import re

from shoal.limits import DETAIL

# From the start of a piece between slashes to its last "@". Pieces do not overlap, so this takes linear time.
_BEFORE_AT = re.compile(r"(?<![^/\\?#\s])[^/\\?#\s]+@")
_AUTHORITY = re.compile(r"([/\\]{2}|:[/\\])\Z")  # browsers take all of these for "//"
_SCHEME = re.compile(r"https?:", re.IGNORECASE)


def one_line(text: str) -> str:
    """The text as one line without secrets, of no more than so much."""
    text = without_userinfo(" ".join(text[: 20 * DETAIL].split()))  # a whole page need not be read for that
    return text if len(text) <= DETAIL else f"{text[: DETAIL - 1]}…"


def without_userinfo(text: str) -> str:
    """The text, in which no URL has a user or a password, however oddly it is written."""
    return _BEFORE_AT.sub(_scrubbed, text) if "@" in text else text


def _scrubbed(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 2) : found.start()]
    if _AUTHORITY.search(before):
        return ""
    scheme = _SCHEME.match(found[0])
    return scheme[0] if scheme else found[0]

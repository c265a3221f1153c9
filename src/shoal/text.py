"""Text that people and stores get to see: without what may be secret."""

from __future__ import annotations

import re

# From the start of a piece between slashes to its last "@". Pieces do not overlap, so this takes linear time.
_BEFORE_AT = re.compile(r"(?<![^/\\?#\s])[^/\\?#\s]+@")
_AUTHORITY = re.compile(r"([/\\]{2}|:[/\\])\Z")  # browsers take all of these for "//"
_SCHEME = re.compile(r"https?:", re.IGNORECASE)


def without_userinfo(text: str) -> str:
    """The text, in which no URL has a user or a password, however oddly it is written."""
    return _BEFORE_AT.sub(_scrubbed, text) if "@" in text else text


def _scrubbed(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 2) : found.start()]
    if _AUTHORITY.search(before):
        return ""
    scheme = _SCHEME.match(found[0])
    return scheme[0] if scheme else found[0]

"""Text and times as they stand in a report."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from shoal import humanize
from shoal.text import without_secrets


def text(value: object) -> str:
    """Whatever came from the web, or from a person, is text and nothing else; and no secret of a URL is in it."""
    return escape(humanize.printable(without_secrets(str(value))))


def when(at: float) -> str:
    """UTC, as the page says once."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def nothing(sentence: str) -> str:
    return f'<p class="nothing">{text(sentence)}</p>'

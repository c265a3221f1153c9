"""What `shoal guess` prints: where it found what, with examples, and how sure it is."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from shoal.develop.guessing.guess_file import Guess
from shoal.terminal.console import safe, stderr, table

_STYLES = {"sure": "green", "likely": "yellow", "perhaps": "red"}
_WIDTH = 40  # characters of an example


def print_guess(guess: Guess, path: str, console: Console | None = None) -> None:
    """To standard error: the file may go to standard output."""
    console = console or stderr()
    for line in _about(guess):
        console.print(line, soft_wrap=True)
    console.print()
    fields = table("field", "sure", "where", "examples")
    for field in guess.fields:
        where = " | ".join(field.where)
        examples = " | ".join(_cut(one) for one in field.samples[:3])
        fields.add_row(
            field.name, Text(field.sure, _STYLES[field.sure]), safe(where), safe(examples or field.remark)
        )
    console.print(fields)
    for remark in guess.remarks:
        console.print(safe(remark), soft_wrap=True)
    if path:
        console.print()
        console.print(safe(f"written to {path}; next: shoal check {path}, then edit it"), soft_wrap=True)


def _about(guess: Guess) -> list[Text]:
    lines = []
    if guess.sitemap is not None:
        lines.append(
            f"sitemap   {guess.sitemap.url}: {guess.sitemap.products:,} of {guess.sitemap.urls:,} URLs look like a"
            f" {guess.handler}"
        )
    if guess.listing is not None:
        lines.append(f"listing   {guess.listing_url}: {len(guess.listing.urls)} links by {guess.listing.css}")
    if guess.menu is not None:
        lines.append(f"menu      {guess.menu[1]} listings by {guess.menu[0]}")
    if guess.following is not None:
        lines.append(f"next      {guess.following.manner}, by {guess.following.css}")
    lines.append(
        f"products  {guess.match or 'no pattern fits their URLs only'}; looked at {len(guess.samples)}"
    )
    return [Text(str(safe(line))) for line in lines]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"

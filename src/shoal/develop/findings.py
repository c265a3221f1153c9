"""What `shoal check` and `shoal doctor` find: rows of one table, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

State: TypeAlias = Literal["ok", "skipped", "warning", "wrong"]


class Finding(Struct, frozen=True, omit_defaults=True):
    """One row. Nothing in it may be a secret."""

    subject: str  # what was looked at: "settings", "selectors", "disk" …
    state: State
    found: str
    do: str = ""  # what a person can do about it
    where: str = ""  # "books.py:12"


def is_wrong(findings: Iterable[Finding], *, strict: bool = False) -> bool:
    """Whether something has to be put right. `strict`: warnings count, too."""
    states = ("wrong", "warning") if strict else ("wrong",)
    return any(finding.state in states for finding in findings)

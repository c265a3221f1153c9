"""escalation.md: its patterns are those that Shoal finds, and its lines those of the log."""

from __future__ import annotations

import re
from pathlib import Path

from shoal.events import EVENTS
from shoal.policy.escalation import Pattern, pattern_of, reason

DOC = (Path(__file__).parents[2] / "docs" / "escalation.md").read_text("utf-8")


def test_patterns() -> None:
    rows = re.findall(r"^\| `(/.*)` \| `(/.*)` \|$", DOC, re.MULTILINE)
    assert len(rows) >= 5
    assert [(path, pattern_of(f"https://shop.example{path}")) for path, _ in rows] == rows


def test_the_lines_of_the_log() -> None:
    fields = {"host": "shop.example", "pattern": "/app/*", "reason": reason(Pattern(shells=5))}
    for name in ("escalation_learned", "escalation_given_back"):
        assert f"\n{EVENTS[name].sentence.format_map(fields)}\n" in DOC

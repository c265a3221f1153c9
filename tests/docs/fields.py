"""The fields of jobs and hosts, as docs/cli.md lists them: `--json` and the dashboard are compared with it."""

from __future__ import annotations

import re
from pathlib import Path

_CLI = Path(__file__).parents[2] / "docs" / "cli.md"


def documented(what: str) -> list[str]:
    """`what`: "A host" or "A job"."""
    [paragraph] = re.findall(rf"^{what} has the same fields here.*?\n\n", _CLI.read_text(), re.M | re.S)
    listed = paragraph.partition("`): ")[2]
    return [name for name in re.findall(r"`([^`]+)`", listed) if name != "shoal why"]

"""The table of `shoal check` and `shoal doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from shoal.develop.findings import Finding
from shoal.terminal.console import safe, stdout, table
from shoal.text.humanize import plural

_STYLES = {"ok": "green", "skipped": "dim", "warning": "yellow", "wrong": "bold red"}


def print_findings(findings: Sequence[Finding], title: str) -> None:
    """One row a finding, with what to do about it below what was found; then a line that counts them."""
    console = stdout()
    shown = table(title, "result", "found")
    for finding in findings:
        text = safe(f"{finding.where}: {finding.found}" if finding.where else finding.found)
        if finding.do:
            text = Text("\n").join([text, safe(f"→ {finding.do}", "dim")])
        shown.add_row(safe(finding.subject), Text(finding.state, _STYLES[finding.state]), text)
    console.print(shown)
    number = Counter(finding.state for finding in findings)
    wrong = f"{number['wrong']} wrong" if number["wrong"] else "nothing is wrong"
    console.print(safe(f"{wrong}, {plural(number['warning'], 'warning')}", "bold"))

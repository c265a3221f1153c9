"""How the report of `--check-links` looks: the links that do not work, and what was not checked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.text import Text

from shoal.runtime.link_report import LinkReport, Problem
from shoal.terminal.console import safe, stderr, table
from shoal.text import humanize

_STYLES = {"broken": "red", "unsure": "yellow"}


class ShownProblem(Struct):
    """A URL that does not work."""

    first: Problem  # of the first page that links to it
    pages: int = 1


def print_links(problems: Sequence[ShownProblem], report: LinkReport, where: str, rows: str) -> None:
    console = stderr()
    if problems:
        listing = table("link", "problem", "on page", "text")
        for one in problems:
            problem, more = one.first, one.pages - 1
            on_page = safe(problem.page or "(a start URL)", "" if problem.page else "dim")
            if more:
                on_page.append(f" and {humanize.count(more)} more", "dim")
            listing.add_row(safe(problem.url), _problem(problem), on_page, safe(problem.text[:40], "dim"))
        console.print(listing)
        left = report.broken + report.unsure - sum(one.pages for one in problems)
        if left > 0:
            console.print(Text(f"{humanize.count(left)} more in {where}", "dim"))
    console.print(Text(_summary(report)))
    if report.unchecked:
        why = humanize.by_count(report.why_unchecked)
        console.print(Text(f"not checked: {why}", "yellow"))
    found = f"these links in {where}; " if problems else ""
    console.print(Text(f"{found}every link with its answer in {rows}", "dim"))


def _problem(problem: Problem) -> Text:
    said = problem.error or (f"HTTP {problem.status}" if problem.status else "")
    text = safe(said, _STYLES[problem.problem])
    if problem.problem == "unsure":
        text.append(" (a person may see it)", "dim")
    if problem.target:
        text.append_text(safe(f" → {problem.target}", "dim"))
    return text


def _summary(report: LinkReport) -> str:
    broken = humanize.plural(report.broken, "broken link") if report.broken else "no broken links"
    unsure = f", {humanize.count(report.unsure)} to look at" if report.unsure else ""
    pages = humanize.plural(report.pages, "page")
    return f"{broken}{unsure}; {humanize.plural(report.links, 'URL')} on {pages}"

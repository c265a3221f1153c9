"""Which exit code a finished job leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from shoal.cli.options import SHOWN, option
from shoal.errors import CrawlFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.frontier.values import Job

FailAbove = Annotated[
    str | None,
    option(
        "--fail-above",
        value="PERCENT",
        text="Exit code 1 if a larger share of its pages was given up; 0: if any was.",
        panel=SHOWN,
        default="if every one was",
    ),
]


def read_share(word: str | None) -> float | None:
    """The option as a share; None: it was not given."""
    if word is None:
        return None
    try:
        percent = float(word.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise UsageError(f"--fail-above {word}: write a share of the pages from 0 to 100, such as 5 or 0.5%")
    return percent / 100


def check_ending(job: Job, fail_above: float | None, refused: Mapping[str, int], dead_command: str) -> None:
    """Raises CrawlFailed if too many pages of a finished job were given up, or none of its start URLs was one.
    `refused`: what was not admitted in this run, by reason."""
    from shoal.text import humanize

    c, name = job.counters, job.spec.name
    if job.state != "finished":
        return
    if refused and not c.admitted:
        number = humanize.plural(sum(refused.values()), "start URL")
        raise CrawlFailed(
            f"job {name}: nothing was crawled, {number} refused: {humanize.by_count(dict(refused))}"
        )
    ended = c.done + c.dead
    if not c.dead or (c.done if fail_above is None else c.dead / ended <= fail_above):
        return
    what = "every page" if not c.done else f"{humanize.percent(c.dead / ended)} of the pages"
    raise CrawlFailed(f"job {name}: {what} failed, {humanize.count(c.dead)} given up; see {dead_command}")

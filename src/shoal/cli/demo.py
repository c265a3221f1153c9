"""`shoal demo`: a web full of trouble on this machine, and a crawl that copes with it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from shoal.cli import options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.engine.tally import HostTally
    from shoal.inspect.job import View
    from shoal.model import DeadLetter
    from shoal.runtime.crawl import JobPlan
    from shoal.testing import HostProfile, WebProcess

LONGEST = 25.0  # seconds
GRACE = 2.0  # for the pages in flight when the time is up

_STORIES = {
    "fast": "answers at once",
    "slow": "answers late; the others do not wait for it",
    "hanging": "never answers: times out, is retried, then given up",
    "limited": "429 when asked too fast; asked again when it says",
    "flapping": "fails now and then; retried with growing pauses",
    "redirecting": "redirects followed, the endless one cut short",
    "trapping": "pages without end; trap rules and a budget end it",
    "huge": "bodies without end; dropped at the size limit",
    "closing": "hangs up on everyone: retried, then given up",
    "down": "refuses connections: retried, then given up",
}


def demo(
    seconds: Annotated[
        float, options.option("--seconds", value="N", text="Stop after so many seconds, 25 at most.")
    ] = LONGEST,
    processes: Annotated[int, options.option("--processes", value="N", text="Worker processes.")] = 1,
    keep: Annotated[bool, options.switch("--keep", text="Keep the rows and the store.")] = False,
) -> None:
    """Crawl a web of slow, broken and hostile hosts on this machine. Needs no network."""
    from shoal.terminal.console import say

    if not 0 < seconds <= LONGEST:
        raise UsageError(f"--seconds {seconds:g}: more than 0 and at most {LONGEST:g}")
    if processes < 1:
        raise UsageError(f"--processes {processes}: at least 1")
    place = Path(tempfile.mkdtemp(prefix="shoal-demo-"))
    try:
        _perform(place, seconds, processes, keep)
    finally:
        if keep:
            say(f"rows and store are kept in {place}; try: shoal dead list --store {place / 'demo.db'}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _perform(place: Path, seconds: float, processes: int, keep: bool) -> None:
    from shoal.cli.crawl import run_plan
    from shoal.frontier.values import DeadFilter
    from shoal.terminal import summary
    from shoal.terminal.console import ask, say, stderr
    from shoal.testing import WebProcess
    from shoal.testing.web.profile import demo_profiles

    with WebProcess(demo_profiles()) as web:
        say(
            f"{len(web.spec.hosts)} hosts on 127.x.x.x, most of them trouble; this takes at most {seconds:g} s"
        )
        plan = _plan(place, web.start_urls, processes)
        view = run_plan(plan, quiet=False, seconds=seconds)
        letters = ask(plan.store, lambda frontier: frontier.dead(DeadFilter(job=plan.job)))
        console = stderr()
        console.print(_hosts_table(web, view, letters))
        console.print(_dead_table(letters))
        output = str(plan.output) if keep else "a temporary file (--keep leaves it there)"
        console.print(summary.render(view, output=output, dead_command="as listed above"))


def _plan(place: Path, urls: Sequence[str], processes: int) -> JobPlan:
    from shoal.config import load
    from shoal.runtime.crawl import JobPlan
    from shoal.spider.loading import SpiderSource
    from shoal.testing.web.profile import DEMO_SETTINGS

    source = SpiderSource(name="demo", urls=tuple(urls))
    # The defaults and no other layer: a shoal.toml lying about is not meant for the demo.
    given = {**DEMO_SETTINGS, "processes": processes, "grace": GRACE}
    return JobPlan(
        spider=source.load(),
        settings=load(None, {}, {}, given),
        job="demo",
        store=str(place / "demo.db"),
        output=place / "demo.jsonl",
        fresh=True,
        source=source,
    )


def _hosts_table(web: WebProcess, view: View, letters: Sequence[DeadLetter]) -> object:
    from rich.text import Text

    from shoal.engine.tally import HostTally
    from shoal.terminal.console import table
    from shoal.terminal.live_panel import latency_style
    from shoal.text import humanize

    tallies: Mapping[str, HostTally] = {tally.host: tally for tally in view.report.hosts}
    buried = Counter(letter.task.host for letter in letters)
    numbers = ("pages", "retries", "dead", "latency")
    shown = table("host", *numbers, "what happens", right=numbers)
    for name, profile in web.spec.hosts.items():
        address = web.addresses[name]
        tally, dead = tallies.get(address, HostTally(address)), buried[address]
        shown.add_row(
            Text(name, "bold" if tally.pages else "red"),
            humanize.count(tally.pages),
            Text(humanize.count(tally.retries), "yellow" if tally.retries else "dim"),
            Text(humanize.count(dead), "red" if dead else "dim"),
            Text(humanize.latency(tally.latency or None), latency_style(tally.latency)),
            Text(_story(profile), "dim"),
        )
    return shown


def _story(profile: HostProfile) -> str:
    robots = profile.robots
    if isinstance(robots, int) and robots >= 500:
        return "robots.txt cannot be read, so nothing may be fetched"
    if isinstance(robots, str):
        return "asks for a pause between pages, and gets it" if "delay" in robots else "robots.txt obeyed"
    return _STORIES[profile.kind]


def _dead_table(letters: Sequence[DeadLetter]) -> object:
    from shoal.policy.outcomes import rule_for
    from shoal.terminal.console import safe, table

    kinds = Counter(letter.kind for letter in letters)
    shown = table("dead letters", "of", "meaning", right=("dead letters",))
    for kind, number in kinds.most_common():
        shown.add_row(str(number), safe(kind, "yellow"), safe(rule_for(kind).meaning, "dim"))
    return shown

"""`shoal add`: put URLs into a job at any time."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.errors import StoreError, UsageError
from shoal.limits import REQUEST_NUMBER
from shoal.text import command

if TYPE_CHECKING:
    from shoal.frontier.protocol import Frontier
    from shoal.runtime.adding import Addition, Additions, Common
    from shoal.spider.spider import Spider

HOW = "How they are queued"
_TOLD = 20  # URLs that are told one by one, of each reason; all are counted

Handler = Annotated[
    str,
    options.option(
        "--handler", value="NAME", text="The handler of their pages.", panel=HOW, default="the first"
    ),
]
Lane = Annotated[
    str | None,
    options.option("--lane", value="LANE", text="Their lane.", panel=HOW, default="the handler's"),
]
Priority = Annotated[
    int | None,
    options.option(
        "--priority",
        value="N",
        text="Those with a higher one come first, of a host and lane.",
        panel=HOW,
        default="the handler's",
        most=REQUEST_NUMBER,
    ),
]
Meta = Annotated[
    list[str] | None,
    options.option(
        "--meta",
        value="KEY=VALUE",
        text="What the handler finds in page.meta; or an object as JSON. Repeatable.",
        panel=HOW,
    ),
]
AsJson = Annotated[
    bool, options.switch("--json", text="An object a line instead of sentences.", panel=options.SHOWN)
]


def add(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="A job of the store, in any state but cancelled.")
    ],
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL", help="URLs to add.")] = None,
    input_file: options.Input = None,
    store: options.Store = options.DEFAULT_STORE,
    handler: Handler = "",
    lane: Lane = None,
    priority: Priority = None,
    meta: Meta = None,
    as_json: AsJson = False,
    quiet: options.Quiet = False,
    log_level: options.LogLevel = None,
) -> None:
    """Put URLs into a JOB while it runs, is paused, or has finished. The same command again adds nothing twice."""
    from shoal.engine.event_loop import run_loop
    from shoal.runtime.adding import Common
    from shoal.terminal.console import say

    options.set_up_logging(log_level)
    source = _source(urls or [], input_file)
    common = Common(handler, lane, priority, read_meta(meta or []))
    teller = _JsonTeller() if as_json else _Teller(quiet)
    try:
        added, next_step = run_loop(_add(store, job, source, common, teller))
    except KeyboardInterrupt:
        say(
            f"stopped after {teller.counts['new']:,} new URLs; the same command again adds the rest, and none twice"
        )
        raise
    teller.end(added, next_step)
    if added.durable is False:
        raise StoreError(
            f"the store at {options.shown_store(store)} has not confirmed that they are on its disk: "
            "run the same command again to be sure"
        )
    if added.refusals:
        raise typer.Exit(1)


def _source(words: list[str], input_file: Path | None) -> Spider:
    from shoal.cli.targets import as_url, listed_in, take_stdin
    from shoal.spider.spider import Spider

    words, input_file = take_stdin(words, input_file)
    if not words and input_file is None:
        raise UsageError("nothing to add: give URLs or -i FILE; see shoal add --help")
    listed = listed_in(input_file)
    begin: list[str | Path] = [as_url(word) for word in words]
    return Spider("add", [*begin, *([listed] if listed else [])])


def read_meta(words: list[str]) -> dict[str, Any] | None:
    """ "KEY=VALUE", whose value is text, or an object as JSON; later ones win."""
    import msgspec

    meta: dict[str, Any] = {}
    for word in words:
        if word.lstrip().startswith("{"):
            try:
                meta |= msgspec.json.decode(word, type=dict[str, Any])
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                raise UsageError(f"--meta {word}: not an object as JSON: {error}") from None
            continue
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--meta {word}: write it as KEY=VALUE, or as an object in JSON")
        meta[key.strip()] = value
    return meta or None


async def _add(
    store: str, job: str, source: Spider, common: Common, teller: _Teller
) -> tuple[Additions, str]:
    from shoal.frontier import open_frontier
    from shoal.runtime.adding import add_to
    from shoal.terminal.console import say

    async with open_frontier(store, create=False) as frontier:
        added = await add_to(frontier, job, source, common, tell=teller.tell, say=say)
        return added, await _next_step(frontier, added)


async def _next_step(frontier: Frontier, added: Additions) -> str:
    """What a person has to do so that the URLs are crawled; "": nothing."""
    from shoal.jobs.note import is_for_fleet
    from shoal.jobs.worker_status import status_of

    name, job = added.job, await frontier.job(added.job)
    if added.state == "paused":
        return f"it is paused: {command(f'resume {name}')} goes on with it"
    if added.state == "cancelled":
        return "it was cancelled meanwhile: submit it again to go on"
    if job is None or added.state == "finished":
        return ""
    if any(status_of(record).serves(name) for record in await frontier.workers()):
        return ""
    if is_for_fleet(job.spec):
        return f"no worker serves it yet: {command('status')} shows how it goes"
    return "nobody works on it now: the shoal crawl that it was made with goes on with it"


class _Teller:
    """What became of each URL, in words: those that are not new, on stderr."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._told: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def tell(self, one: Addition) -> None:
        from shoal.terminal.console import say

        self.counts[one.fate] += 1
        if one.fate == "new" or self._quiet:
            return
        reason = one.reason or "duplicate: the job knows this page"
        kind = reason.partition(":")[0]
        self._told[kind] += 1
        if self._told[kind] <= _TOLD:
            say(f"{one.where}: {reason}: {one.url}" if one.where else f"{one.url}: {reason}")
        elif self._told[kind] == _TOLD + 1:
            say(f"… further ones ({kind}) are only counted; --json tells every one")

    def end(self, added: Additions, next_step: str) -> None:
        from shoal.terminal.console import say
        from shoal.text.humanize import by_count, plural

        said = f"job {added.job} is {added.state}: {plural(added.new, 'URL')} added"
        if added.duplicates:
            said += f", {plural(added.duplicates, 'duplicate')}"
        if added.refusals:
            said += f", {added.refusals:,} refused ({by_count(added.refused)})"
        if not self._quiet or added.refusals:
            say(said)
        if next_step and not self._quiet:
            say(next_step)


class _JsonTeller(_Teller):
    """The same, as JSON lines on stdout, without a bound; the last line has the counts."""

    def __init__(self) -> None:
        super().__init__(quiet=False)

    def tell(self, one: Addition) -> None:
        self.counts[one.fate] += 1
        if one.fate != "new":
            self._print({"where": one.where, "url": one.url, "fate": one.fate, "reason": one.reason})

    def end(self, added: Additions, next_step: str) -> None:
        import msgspec

        self._print(msgspec.to_builtins(added))

    def _print(self, value: object) -> None:
        import msgspec

        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")

"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.completion import settings_named
from shoal.develop import DEFAULT_CACHE
from shoal.errors import UsageError
from shoal.frontier import DEFAULT_STORE as DEFAULT_STORE
from shoal.frontier import hint_at
from shoal.settings import Settings
from shoal.text.humanize import read_span

SPEED, REACH, MANNERS, PLACES, SHOWN = "How fast", "How far", "Manners", "Where", "What is shown"

_DEFAULTS = Settings()


def option(
    *names: str,
    value: str,
    text: str,
    panel: str | None = None,
    default: object = None,
    env: str | None = None,
    most: int | None = None,
    told: Callable[[Any], Any] | None = None,
    words: Callable[[str], list[str]] | None = None,
) -> Any:
    """An option with a value; `default` is shown in the help of an option whose default comes from other layers.
    `most`: the largest absolute value of a number. `told` is called with the value, and returns it. `words` completes
    what was typed of it."""
    shown = "" if default is None else f" \\[default: {default}]"
    least = None if most is None else -most
    return typer.Option(
        *names,
        metavar=value,
        help=text + shown,
        rich_help_panel=panel,
        envvar=env,
        min=least,
        max=most,
        callback=told,
        autocompletion=words,
    )


def switch(*names: str, text: str, panel: str | None = None) -> Any:
    return typer.Option(*names, metavar="", help=text, rich_help_panel=panel)


# -- how fast
Concurrency = Annotated[
    int | None,
    option(
        "--concurrency",
        value="N",
        text="Pages worked on at once, in all processes.",
        panel=SPEED,
        default=_DEFAULTS.concurrency,
    ),
]


def _number_or_word(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else text


PerHost = Annotated[
    str | None,
    option(
        "--per-host",
        value="N",
        text="Requests at once per host; auto: as many as the rate needs.",
        panel=SPEED,
        default=_DEFAULTS.per_host,
        told=_number_or_word,
    ),
]
Rate = Annotated[
    float | None,
    option(
        "--rate",
        value="R",
        text="Requests per second and host; 0 lifts the limit.",
        panel=SPEED,
        default=f"{_DEFAULTS.rate:g}",
    ),
]
Processes = Annotated[
    int | None,
    option("--processes", value="N", text="Worker processes.", panel=SPEED, default=_DEFAULTS.processes),
]

# -- how far
MaxPages = Annotated[int | None, option("--max-pages", value="N", text="Stop after N pages.", panel=REACH)]
Depth = Annotated[int | None, option("--depth", value="N", text="Follow links N deep.", panel=REACH)]

Revisit = Annotated[
    str | None,
    option(
        "--revisit",
        value="TIME",
        text="Visit pages again: 1h, or auto (as often as they change), auto 10m-7d.",
        panel=REACH,
    ),
]
Once = Annotated[
    bool, switch("--once", text="End when no page is due; the same command later goes on.", panel=REACH)
]

# -- manners
NoRobots = Annotated[bool, switch("--no-robots", text="Do not ask robots.txt.", panel=MANNERS)]
AllowNetwork = Annotated[
    list[str] | None,
    option(
        "--allow-network",
        value="CIDR",
        text="Private network that may be reached, such as 10.0.0.0/8. Repeatable.",
        panel=MANNERS,
    ),
]

# -- where
Store = Annotated[
    str,
    option(
        "--store",
        value="STORE",
        text="What holds the crawl's state: a file, or redis://…",
        panel=PLACES,
        env="SHOAL_STORE",
        told=hint_at,
    ),
]
Input = Annotated[
    Path | None,
    option(
        "-i", "--input", value="FILE", text="File of URLs, one a line, or a table; - is stdin.", panel=PLACES
    ),
]
Output = Annotated[
    list[str] | None,
    option(
        "-o",
        "--output",
        value="[ITEM=]FILE",
        text="Rows, by suffix: .jsonl .csv .parquet …, postgresql://…; - is stdout. Repeatable.",
        panel=PLACES,
        default="JOB.jsonl",
    ),
]
Webhook = Annotated[
    list[str] | None,
    option("--webhook", value="URL", text="Send what has changed to this address. Repeatable.", panel=PLACES),
]
Archive = Annotated[
    str | None,
    option(
        "--archive",
        value="DIR",
        text="Keep what is fetched, as WARC files.",
        panel=PLACES,
        default="setting archive",
    ),
]
Cache = Annotated[
    str | None,
    option(
        "--cache",
        value="DIR",
        text="An archive: fetch only what it does not have, and add that.",
        panel=PLACES,
    ),
]
CacheAge = Annotated[
    str | None,
    option(
        "--cache-age", value="AGE", text="Fetch pages again that are older, as in 12h or 7d.", panel=PLACES
    ),
]
Refresh = Annotated[
    list[str] | None,
    option(
        "--refresh",
        value="PATTERN",
        text="Fetch URLs like this though they are cached; * stands for anything. Repeatable.",
        panel=PLACES,
    ),
]
PageCache = Annotated[
    Path | None,
    option(
        "--cache",
        value="DIR",
        text="Where pages are looked up, and kept when they were fetched.",
        panel=PLACES,
        default=DEFAULT_CACHE,
    ),
]
NoCache = Annotated[
    bool, switch("--no-cache", text="Fetch the page in any case, and do not keep it.", panel=PLACES)
]
Offline = Annotated[bool, switch("--offline", text="Fetch nothing.", panel=PLACES)]
JobName = Annotated[
    str | None,
    option("--job", value="NAME", text="The job to start or resume.", panel=PLACES, env="SHOAL_JOB"),
]
Fresh = Annotated[bool, switch("--fresh", text="Forget the job and start again.", panel=PLACES)]

# -- a fleet
Spiders = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPIDER",
        help="Spiders: FILE.py, FILE.py:name, module, or a folder with such files. None: only URLs that were submitted"
        " without one.",
    ),
]
JobPatterns = Annotated[
    list[str] | None,
    option(
        "--jobs", value="NAME", text="Serve these jobs only; * stands for anything. Repeatable.", panel=PLACES
    ),
]
ServedLanes = Annotated[
    str | None,
    option("--lanes", value="LANE,LANE", text="Serve these lanes only.", panel=SPEED),
]
NoCoordinator = Annotated[
    bool, switch("--no-coordinator", text="Leave feeding and scheduling to others.", panel=PLACES)
]
UntilDone = Annotated[
    bool, switch("--until-done", text="End when no job is left to do, instead of waiting for more.")
]

# -- what is shown
Summary = Annotated[
    Path | None, option("--summary", value="FILE", text="Write the end summary as JSON.", panel=SHOWN)
]
Quiet = Annotated[bool, switch("-q", "--quiet", text="No progress and no summary.", panel=SHOWN)]
AsJson = Annotated[bool, switch("--json", text="JSON instead of a table.", panel=SHOWN)]
LogLevel = Annotated[
    str | None,
    option("--log-level", value="LEVEL", text="debug, info, warning or error.", panel=SHOWN, env="SHOAL_LOG"),
]
LogFormat = Annotated[
    str | None,
    option(
        "--log-format",
        value="FORMAT",
        text="text, or json: an object a line.",
        panel=SHOWN,
        default="text",
        env="SHOAL_LOG_FORMAT",
    ),
]
Metrics = Annotated[
    str | None,
    option(
        "--metrics",
        value="[HOST:]PORT",
        text="Answer /metrics, /healthz and /readyz there; 0 takes a free port.",
        panel=SHOWN,
        env="SHOAL_METRICS",
    ),
]
Dashboard = Annotated[bool, switch("--dashboard", text="Show it in the browser while it runs.", panel=SHOWN)]
DashboardPort = Annotated[
    int | None,
    option(
        "--dashboard-port", value="N", text="… at this port; 0 takes a free one.", panel=SHOWN, default=8484
    ),
]
Debug = Annotated[
    list[str] | None,
    option(
        "--debug",
        value="HANDLER",
        text="Stop in the debugger at its first line; one page at a time. Repeatable.",
        panel=SHOWN,
    ),
]
Trace = Annotated[bool, switch("--trace", text="Trace every page with OpenTelemetry.", panel=SHOWN)]

# -- settings by name
Pairs = Annotated[
    list[str] | None,
    option(
        "-s",
        "--set",
        value="KEY=VALUE",
        text="Any setting, by its name in docs/settings.md. Repeatable.",
        words=settings_named,
    ),
]
Arguments = Annotated[
    list[str] | None,
    option(
        "-a",
        "--arg",
        value="NAME=VALUE",
        text="An argument of the spider; shoal crawl SPIDER --help-args lists them. Repeatable.",
    ),
]
HelpArgs = Annotated[bool, switch("--help-args", text="Show the spider's arguments and exit.")]
Config = Annotated[
    Path | None,
    option("--config", value="FILE", text="Settings file instead of ./shoal.toml.", env="SHOAL_CONFIG"),
]


def refuse_options(context: typer.Context) -> None:
    """Refuses options before a sub-command, which would have no effect."""
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and str(context.get_parameter_source(parameter.name)).endswith("COMMANDLINE")
    ]
    if given:
        command = context.invoked_subcommand
        raise UsageError(f"{given[0]} before {command} has no effect: the options of {command} come after it")


def flags(pairs: Sequence[str] | None, **named: object) -> dict[str, object]:
    """Only the settings given on the command line: all others come from the layers below."""
    given: dict[str, object] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"-s {pair}: write it as key=value, for example -s retry_base=2")
        given[key.strip()] = value.strip()
    given.update((key, value) for key, value in named.items() if value is not None)
    return given


def cache_flags(
    cache: str | None,
    archive: str | None,
    *,
    offline: bool = False,
    age: str | None = None,
    refresh: Sequence[str] | None = None,
) -> dict[str, object]:
    """The settings that --cache, --archive and what belongs to them stand for."""
    if age is not None and not seconds(age, "--cache-age"):
        raise UsageError(f"--cache-age {age}: every page is older; leave out --cache to fetch them all")
    given: dict[str, object] = {
        "offline": offline or None,
        "cache_age": seconds(age, "--cache-age"),
        "cache_refresh": list(refresh) if refresh else None,
    }
    if cache is None:
        wanted = any(value is not None for value in given.values())
        return {"archive": archive, "cache": True if wanted else None, **given}
    if archive is not None and archive != cache:
        raise UsageError(f"--cache {cache} is an archive, too: leave out --archive {archive}")
    return {"archive": cache, "cache": True, **given}


def page_cache(cache: Path | None, no_cache: bool) -> Path | None:
    """The folder in which commands of development look for pages."""
    if no_cache:
        if cache is not None:
            raise UsageError(f"--cache {cache} and --no-cache: leave one of them out")
        return None
    return cache if cache is not None else DEFAULT_CACHE


def moment(text: str | None, now: float, option: str) -> float | None:
    """ "2h" or "1d" (ago), or an ISO date or time (local unless it names a zone), in epoch seconds."""
    if text is None:
        return None
    if (ago := read_span(text)) is not None:
        return now - ago
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option} {text!r} is not a time: write 30m, 2h or 1d for a while ago, or a date as in 2031-05-30"
        ) from None


def seconds(text: str | None, option: str) -> float | None:
    """ "30s", "10m" or "2h" as a number of seconds."""
    if text is None:
        return None
    span = read_span(text)
    if span is None:
        raise UsageError(f"{option} {text!r} is not a time: write it like 30s, 10m, 2h or 1d")
    return span


def set_up_logging(
    level: str | None, form: str | None = None, usual: str = "warning", *, runs_spiders: bool = False
) -> None:
    """A JSON log begins at "info": it has no table at the end. `runs_spiders`: what they print goes to stderr."""
    from shoal.telemetry.logging import is_json, set_up

    set_up(level or usual, form)
    if level is None and is_json():
        set_up("info", form)
    if runs_spiders:
        from shoal.telemetry.printing import take_stdout

        take_stdout()


def shown_store(store: str) -> str:
    """The address of a store without user and password."""
    from shoal.frontier import shown

    return shown(store)

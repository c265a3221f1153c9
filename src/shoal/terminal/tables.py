"""How hosts and dead letters look: as a list, and one by one. Nothing in them is trusted by the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.values import HostQueue
from shoal.inspect.actions import Set
from shoal.inspect.host import HostView, causes, rate_source, settings_in_words
from shoal.model import DeadLetter, Failure, Snapshot
from shoal.policy.host_table import ANY
from shoal.policy.outcomes import rule_for
from shoal.policy.quality_alarms import alarms
from shoal.settings import HostSettings
from shoal.terminal.console import safe, stdout, table, when
from shoal.terminal.live_panel import latency_style
from shoal.terminal.tracebacks import users_first
from shoal.text import command, humanize

_STYLES = {"healthy": "green", "no robots": "yellow", "resting": "yellow", "probing": "yellow"}


def print_hosts(hosts: Sequence[HostView], total: int) -> None:
    console = stdout()
    if not hosts:
        console.print("no hosts yet")
        return
    numbers = ("req/s", "in flight", "latency", "timeout")
    # Only where pages are visited again and again: how many, and the share of visits that were on time.
    again = ("followed", "on time") if any(host.visits for host in hosts) else ()
    columns = ("host", *numbers, "condition", "queue", *again, "errors")
    listing = table(*columns, right=(*numbers, "queue", *again), cut=True)
    for host in hosts:
        listing.add_row(
            safe(host.name),
            humanize.speed(host.rate),
            Text.assemble(f"{host.valve.in_flight}", (f"/{host.valve.cap}", "dim")),
            Text(humanize.latency(host.latency), latency_style(host.latency) if host.latency else "dim"),
            humanize.latency(host.limits.timeout),
            _condition(host),
            humanize.count(host.pending) if host.pending else Text("-", "dim"),
            *(_visits(host) if again else ()),
            safe(_errors(host), "dim"),
        )
    console.print(listing)
    hint = f"{command('hosts show HOST')} tells more"
    if total > len(hosts):
        hint = (
            f"{humanize.count(len(hosts))} of {humanize.count(total)} hosts; --all shows every one · {hint}"
        )
    console.print(Text(hint, "dim"))


def _condition(host: HostView) -> Text:
    text = Text(host.condition, _STYLES.get(host.condition, "red"))
    if host.until is not None:
        text.append(f" {humanize.span(host.until - host.now)}")
    if found := alarms(host.state.quality):
        text.append(f", {humanize.plural(len(found), 'quality alarm')}", "yellow")
    return text


def _visits(host: HostView) -> tuple[str | Text, Text]:
    if host.visits is None:
        return Text("-", "dim"), Text("-", "dim")
    share = host.visits.on_time
    style = "dim" if share is None else "green" if share > 0.9 else "yellow"
    return humanize.count(host.visits.pages), Text(humanize.percent(share), style)


def _visits_in_words(host: HostView) -> str:
    found = host.visits
    if found is None:
        return "none of its pages is visited again"
    said = f"about {humanize.plural(found.pages, 'page')}"
    if found.on_time is None or found.changed is None:
        return f"{said}, each visited once so far"
    late = f"{humanize.percent(found.on_time)} of the visits of the last days were on time"
    return f"{said}; {late}, {humanize.percent(found.changed)} found a change"


def _errors(host: HostView) -> str:
    """ "http_503 ×3, timeout": the latest few, the newest first."""
    kinds = Counter(reversed(host.state.errors))
    return ", ".join(kind if number == 1 else f"{kind} ×{number}" for kind, number in kinds.items())


def print_host(host: HostView, queues: Sequence[HostQueue]) -> None:
    console = stdout()
    console.print(safe(host.name, "bold cyan"))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in (
        ("rate", _rate_in_words(host)),
        ("at a time", f"{host.valve.in_flight} in flight, at most {host.valve.cap}"),
        ("domain", _domain(host)),
        ("latency", _latency(host)),
        ("condition", _condition(host)),
        ("robots.txt", _robots(host)),
        ("queue", _queue(queues)),
        ("follows", _visits_in_words(host)),
        ("errors", _errors(host) or "none"),
        ("browser", "\n".join(host.in_browser.values()) or "not needed"),
        ("quality", "\n".join(one.sentence for one in alarms(host.state.quality)) or "no alarm"),
        ("settings", _own(host)),
    ):
        facts.add_row(name, value if isinstance(value, Text) else safe(value))
    console.print(Padding(facts, (0, 0, 0, 2)))
    for cause in causes(host):
        if cause.name != "set_for_host":  # the lines above say so
            console.print(Padding(safe(cause.sentence, "yellow"), (0, 0, 0, 2)))


def _rate_in_words(host: HostView) -> str:
    if host.rate is None:
        return f"no limit: {rate_source(host)}"
    every = f"{humanize.speed(host.rate)} req/s, one every {humanize.latency(host.valve.interval)}"
    return f"{every}: {rate_source(host)}"


def _own(host: HostView) -> str:
    said = settings_in_words(host.own)
    lines = [f"{said[key]}: {host.sources.get(key, 'set for this host')}" for key in said]
    return "\n".join(lines) or "those of all hosts"


def print_settings(tables: Mapping[str, HostSettings]) -> None:
    console = stdout()
    if not tables:
        console.print(f"nothing is set by hand for any host; {command('hosts set HOST rate=0.5')} does it")
        return
    listing = table("host", "set by hand")
    for name in sorted(tables):
        listing.add_row(safe(name), safe(", ".join(settings_in_words(tables[name]).values())))
    console.print(listing)


def set_in_one_line(done: Set) -> str:
    """ "*.shop.example: 0.5 req/s; 12 known hosts follow it, and those to come"."""
    said = ", ".join(settings_in_words(done.settings).values())
    if not said:
        return f"{done.pattern}: nothing is set by hand"
    if not done.pattern.startswith(ANY):
        return not_met(done.pattern, done.settings)
    return f"{done.pattern}: {said}; for {humanize.plural(done.hosts, 'known host')} and for those to come"


def not_met(host: str, settings: HostSettings) -> str:
    said = ", ".join(settings_in_words(settings).values())
    return f"{host}: {said}; the host is not known here yet, and will begin with that"


def _domain(host: HostView) -> str:
    domain, limit = host.domain, host.domain_limit
    if domain is None:
        return "no other host of it is known"
    most = f"at most {limit.cap}" if limit.cap else "no limit"
    rate = f"{humanize.speed(1 / limit.interval)} req/s" if limit.interval else "no limit on the rate"
    return f"{domain.name}: all its hosts share {rate}, {domain.in_flight} in flight, {most}"


def _latency(host: HostView) -> str:
    known = humanize.latency(host.latency) if host.latency is not None else "not known yet"
    return f"{known}, cut off after {humanize.latency(host.limits.timeout)}"


def _robots(host: HostView) -> str:
    if not host.asks_robots:
        return "not asked"
    said = {origin.name: origin.state.robots for origin in host.origins.values()}
    records = {name: record for name, record in said.items() if record is not None}
    if len(records) == 1:
        return _record(*records.values())
    return "\n".join(f"{name}: {_record(records[name])}" for name in records) or "not asked for yet"


def _record(record: RobotsRecord) -> str:
    said = {"rules": "rules", "allow": "allows everything", "disallow": "cannot be fetched"}[record.verdict]
    reason = f" ({record.reason})" if record.reason else ""
    return f"{said}{reason}, read {when(record.fetched_at)}"


def _queue(queues: Sequence[HostQueue]) -> str:
    parts = [
        f"{humanize.count(queue.pending)} {queue.lane}"
        + (f", {humanize.count(delayed)} delayed" if (delayed := queue.delayed - queue.waiting) else "")
        + (f", {humanize.count(queue.waiting)} that wait for their next visit" if queue.waiting else "")
        + f" (job {queue.job})"
        for queue in queues
    ]
    return ", ".join(parts) or "empty"


def host_in_one_line(host: HostView) -> str:
    """ "shop.example: 0.5 req/s, 2 at a time, blocked for another 10 min"."""
    speed = "no limit on the rate" if host.rate is None else f"{humanize.speed(host.rate)} req/s"
    line = f"{host.name}: {speed}, {host.valve.cap} at a time"
    if host.condition != "healthy":
        line += f", {host.condition}"
        line += f" for another {humanize.span(host.until - host.now)}" if host.until is not None else ""
    return line


# -- dead letters


BODY_SHOWN = 2_000  # characters


def print_letters(letters: Sequence[DeadLetter], limit: int | None) -> None:
    console = stdout()
    if not letters:
        console.print("no dead letters")
        return
    listing = table("id", "buried", "kind", "tries", "url", right=("id", "tries"))
    for letter in letters:
        listing.add_row(
            str(letter.task.id),
            Text(when(letter.at), "dim"),
            safe(letter.kind, "yellow"),
            str(len(letter.task.history)),
            safe(letter.task.url),
        )
    console.print(listing)
    hint = f"{command('dead show ID')} for the whole story"
    if limit is not None and len(letters) >= limit:
        hint = f"the newest {limit}; --limit N for more · {hint}"
    console.print(Text(hint, "dim"))


def print_letter(letter: DeadLetter) -> None:
    console, task = stdout(), letter.task
    console.print(Text.assemble((f"{task.id} ", "bold cyan"), safe(task.url, "bold")))
    facts = table("", "")
    facts.show_header, facts.box = False, None
    facts.add_row("died of", Text.assemble(safe(letter.kind, "yellow"), ": ", safe(_cause(letter))))
    facts.add_row("buried", when(letter.at))
    facts.add_row("job", safe(task.job))
    facts.add_row("handler", safe(task.handler or "-"))
    facts.add_row("depth", str(task.depth))
    for hop in task.hops:
        facts.add_row("came from", safe(hop))
    facts.columns[0].style = "dim"
    console.print(facts)
    _print_attempts(console, task.history)
    if letter.snapshot is not None:
        _print_snapshot(console, letter.snapshot)


def _cause(letter: DeadLetter) -> str:
    """What the kind means. `junk` is said of many faults of a handler, so the fault itself is told."""
    history = letter.task.history
    if letter.kind == "junk" and history and history[-1].kind == "junk":
        return history[-1].detail
    return rule_for(letter.kind).meaning


def _print_attempts(console: Console, history: Sequence[Failure]) -> None:
    attempts = table("try", "at", "took", "kind", "what happened", right=("try", "took"))
    for failure in history:
        took = humanize.latency(failure.elapsed) if failure.elapsed else "-"
        attempts.add_row(
            str(failure.attempt), when(failure.at), took, safe(failure.kind, "yellow"), safe(_detail(failure))
        )
    console.print(attempts)


def _detail(failure: Failure) -> str:
    told = not failure.via or failure.via in failure.detail
    return failure.detail if told else f"{failure.detail} (through {failure.via})"


def _print_snapshot(console: Console, snapshot: Snapshot) -> None:
    if snapshot.traceback:
        console.print(Text("traceback", "dim"))
        console.print(safe(users_first(snapshot.traceback.rstrip())))
    if snapshot.status is not None:
        console.print(Text.assemble(("response ", "dim"), (f"HTTP {snapshot.status}", "bold")))
    for name, value in (snapshot.headers or {}).items():
        console.print(Text.assemble(safe(name, "dim"), ": ", safe(value)))
    if snapshot.body:
        text = snapshot.body.decode("utf-8", "replace")
        console.print()
        console.print(safe(text[:BODY_SHOWN]))
        if len(text) > BODY_SHOWN:
            console.print(Text(f"… {len(text) - BODY_SHOWN:,} more characters kept; --json has all", "dim"))

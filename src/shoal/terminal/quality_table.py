"""How the quality of rows looks: alarms of all hosts, and every field of one host."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from shoal.inspect.quality import FieldQuality, HostQuality
from shoal.terminal.console import safe, stdout, table, when
from shoal.text import command, humanize


def print_alarms(hosts: Sequence[HostQuality]) -> None:
    console = stdout()
    alarmed = [(host, one) for host in hosts for one in host.alarms]
    if not alarmed:
        watched = sum(len(host.fields) for host in hosts)
        if not hosts:
            console.print("nothing is watched yet: rows of spiders are, from the second run or visit on")
        else:
            fields = humanize.plural(watched, "field")
            console.print(f"no alarm: {fields} of {humanize.plural(len(hosts), 'host')} are as they were")
        return
    listing = table("host", "handler", "field", "since", "what")
    for host, one in alarmed:
        listing.add_row(
            safe(host.host),
            safe(one.handler),
            safe(one.field, "bold"),
            when(one.since or 0.0),
            safe(one.sentence.partition(f"handler {one.handler} ")[2] or one.sentence, "yellow"),
        )
    console.print(listing)
    hint = (
        f"{command('quality show HOST')} tells more; {command('quality accept HOST')}: it is right as it is"
    )
    console.print(Text(hint, "dim"))


def print_fields(name: str, host: HostQuality | None) -> None:
    console = stdout()
    if host is None:
        console.print(safe(f"{name}: nothing is watched"))
        return
    console.print(safe(name, "bold cyan"))
    numbers = ("pages", "filled before", "now", "range before", "now about")
    listing = table("handler", "field", *numbers, "alarm", right=numbers)
    for one in host.fields:
        handler = f"{one.handler} ({one.table})" if one.table else one.handler
        listing.add_row(
            safe(handler),
            safe(one.field),
            humanize.count(one.pages),
            humanize.percent(one.filled_before),
            humanize.percent(one.filled_now),
            _range(one),
            "" if one.number_now is None else f"{one.number_now:,.4g}",
            safe(one.alarm or "", "bold yellow"),
        )
    console.print(listing)
    for one in host.alarms:
        console.print(safe(f"{one.sentence} (since {when(one.since or 0.0)})", "yellow"))
    if host.learning:
        console.print(
            safe("one run or visit so far: what is normal is being learnt, and nothing is told", "dim")
        )
    if host.unwatched:
        console.print(
            safe(f"{humanize.plural(host.unwatched, 'field')} beyond what is watched of a host", "dim")
        )


def _range(one: FieldQuality) -> str:
    if one.range_before is None:
        return ""
    low, high = one.range_before
    return f"{low:,.4g} – {high:,.4g}"

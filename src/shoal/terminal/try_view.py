"""What `shoal try` prints: the items and requests of one handler on one page."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from shoal.develop.trying import Tried, TriedRequest
from shoal.inspect.row_layout import value_text
from shoal.model import counts
from shoal.sink.items import as_json
from shoal.terminal.console import safe, stdout, table
from shoal.terminal.field_table import print_fields, print_lists
from shoal.text import humanize, shown_url

_SHOWN = 20  # items of a kind, and requests
_LISTS = 3  # items that take a line for each field
_REASON = 300  # characters of a reason
_STYLES = {"admitted": "green", "duplicate": "dim", "refused": "yellow"}


def print_tried(tried: Tried, *, every: bool = False, console: Console | None = None) -> None:
    console, most = console or stdout(), None if every else _SHOWN
    _print_page(console, tried)
    _print_items(console, tried, most)
    _print_rejected(console, tried, most)
    _print_requests(console, tried, most)
    _print_notes(console, tried)
    if tried.error is not None:
        _print_error(console, tried)
    console.print()
    console.print(_summary(tried))


def _print_page(console: Console, tried: Tried) -> None:
    found, response = tried.found, tried.found.response
    style = "bold green" if 200 <= response.status < 300 else "bold yellow"
    method = found.task.method
    size = humanize.size(len(response.body))
    page = Text.assemble((str(response.status), style), f" {method} ", safe(shown_url(response.url)))
    about = Text.assemble((f"{size}, ", "dim"), _where(tried))
    fits = page.cell_len + 2 + about.cell_len <= console.width
    console.print(Text("  " if fits else "\n").join([page, about]), soft_wrap=True)


def _where(tried: Tried) -> Text:
    found = tried.found
    age = max(0.0, time.time() - found.at)
    if found.where == "live":
        return Text(f"fetched now in {humanize.latency(found.response.elapsed)}", "magenta")
    place = {"cache": "from the cache", "archive": "from the archive", "file": "from a file"}[found.where]
    return Text(f"{place}, {humanize.span(age)} old", "cyan")


def _heading(console: Console, name: str, *told: Text) -> None:
    console.print()
    console.print(Text.assemble(Text(name, "bold cyan"), "  ", *told))


def _print_items(console: Console, tried: Tried, most: int | None) -> None:
    name, found = "items", tried.rows
    if tried.error is not None:
        name, found = "items before it failed", [("", row) for row in _readable(tried.items)]
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    for kind in kinds:
        rows = [row for one, row in found if one == kind]
        title = kind if len(kinds) > 1 and kind else name
        _heading(console, title, Text(humanize.count(len(rows)), "bold"))
        if len(rows) == 1:
            print_lists(console, rows)
            shown = 1
        else:
            shown = print_fields(console, rows[:most], lists=_LISTS if most is not None else None)
        _print_more(console, len(rows), shown)
        if empty := _always_empty(rows):
            every = "empty" if len(rows) == 1 else f"empty in all {len(rows)} items"
            console.print(Text.assemble((f"{every}: ", "yellow"), safe(", ".join(empty), "bold yellow")))


def _readable(items: Sequence[object]) -> list[dict[str, Any]]:
    """Items that no schema has seen, as far as they are JSON."""
    return [msgspec.json.decode(data) for item in items if (data := as_json(item)) is not None]


def _always_empty(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields that no row has a value for: their selectors find nothing."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if all(row.get(name) in (None, "", [], {}) for row in rows)]


def _print_rejected(console: Console, tried: Tried, most: int | None) -> None:
    if not tried.rejected:
        return
    _heading(console, "rejected", Text(humanize.count(len(tried.rejected)), "bold red"))
    for one in tried.rejected[:most]:
        console.print(safe(one.reason[:_REASON], "yellow"))
        console.print(Text(f"  {value_text(one.item)}", "dim"), no_wrap=True, overflow="ellipsis")
    _print_more(console, len(tried.rejected), most)


def _print_requests(console: Console, tried: Tried, most: int | None) -> None:
    requests = tried.requests
    if not requests:
        return
    _heading(
        console, "requests", Text(humanize.count(len(requests)), "bold"), Text("  "), _verdicts(requests)
    )
    with_lane = any(one.task is not None and one.task.lane != "normal" for one in requests)
    made = table("says", "handler", *(["lane"] if with_lane else []), "url", cut=True)
    shown = _chosen(requests, most)
    for one in shown:
        said = one.verdict if not one.why else f"{one.verdict}: {one.why}"
        lane = [safe(one.task.lane if one.task is not None else "")] if with_lane else []
        method = "" if one.request.method == "GET" else f"{one.request.method} "
        made.add_row(
            safe(said, _STYLES[one.verdict]), safe(one.handler), *lane, safe(method + _short(one.url, tried))
        )
    console.print(made)
    _print_more(console, len(requests), most)


def _chosen(requests: Sequence[TriedRequest], most: int | None) -> list[TriedRequest]:
    """As many as are shown, in their order. Those that are not admitted come before others: they are what one looks
    for."""
    if most is None or len(requests) <= most:
        return list(requests)
    places = range(len(requests))
    others = [place for place in places if requests[place].verdict != "admitted"][: most // 2]
    admitted = [place for place in places if requests[place].verdict == "admitted"][: most - len(others)]
    return [requests[place] for place in sorted(others + admitted)]


def _verdicts(requests: Sequence[TriedRequest]) -> Text:
    number = Counter(one.verdict for one in requests)
    why = Counter(one.why for one in requests if one.verdict == "refused")
    parts = []
    if number["admitted"]:
        parts.append(Text(f"{humanize.count(number['admitted'])} admitted", "green"))
    if number["duplicate"]:
        parts.append(Text(humanize.plural(number["duplicate"], "duplicate"), "dim"))
    if why:
        parts.append(
            safe(f"{humanize.count(why.total())} refused ({humanize.by_count(dict(why))})", "yellow")
        )
    return Text(", ").join(parts)


def _short(url: str, tried: Tried) -> str:
    """Without the part that it has in common with the page."""
    shown = shown_url(url)
    here = "/".join(tried.found.response.url.split("/", 3)[:3]) + "/"
    return "/" + shown.removeprefix(here) if shown.startswith(here) else shown


def _print_more(console: Console, number: int, most: int | None) -> None:
    if most is not None and number > most:
        console.print(Text(f"and {humanize.count(number - most)} more; --all shows them", "dim"))


def _print_notes(console: Console, tried: Tried) -> None:
    notes: list[tuple[str, str]] = []
    if tried.challenge:
        notes.append(("no page", tried.challenge))
    if own := counts.own(tried.counts):
        notes.append(("counted", humanize.by_count(own)))
    if dropped := counts.dropped(tried.counts):
        notes.append(("dropped", humanize.by_count(dropped)))
    if tried.left_out:
        notes.append(("left out", humanize.by_count(tried.left_out)))
    if tried.repeated:
        notes.append(("merged", f"{humanize.plural(tried.repeated, 'row')} whose key another row above has"))
    for url, where in tried.fetched:
        notes.append(("fetched", f"{_short(url, tried)} ({where})"))
    if not notes:
        return
    console.print()
    made = table("", "")
    made.show_header = False
    made.columns[0].style = "dim"
    for name, value in notes:
        made.add_row(name, safe(value))
    console.print(made)


def _print_error(console: Console, tried: Tried) -> None:
    from shoal.terminal.tracebacks import user_frames

    error = tried.error
    assert error is not None
    console.print()
    console.print(Text.assemble(safe(error.kind, "bold red"), "  ", safe(error.detail, "yellow")))
    if trace := user_frames(error.traceback):
        console.print(safe(trace, "dim"))


def _summary(tried: Tried) -> Text:
    style = "bold red"
    if tried.error is not None:
        said = "failed"
    elif tried.is_empty and tried.rejected:
        said = f"yields nothing but {humanize.plural(len(tried.rejected), 'rejected item')}"
    elif tried.is_empty:
        said = "yields nothing"
    else:
        said, style = _yield(tried), "bold green"
    took = f"  in {humanize.latency(tried.seconds)}"
    return Text.assemble(safe(tried.handler, "bold"), "  ", (said, style), (took, "dim"))


def _yield(tried: Tried) -> str:
    admitted = sum(one.verdict == "admitted" for one in tried.requests)
    parts = [humanize.plural(len(tried.rows), "item")]
    if tried.rejected:
        parts.append(f"{humanize.count(len(tried.rejected))} rejected")
    parts.append(humanize.plural(admitted, "new request"))
    return ", ".join(parts)

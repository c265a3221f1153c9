"""What people are told about quality: alarms in sentences, what pages lack, what is accepted as normal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.quality import LONGEST, SOON, USUAL, FieldState, Kind, Quality, accepted
from shoal.policy.quality_sample import ROWS, FieldSeen, PageSample, number_of

_SUSPECT = 200  # hundredths of evidence: others are not
_ENOUGH_PAGES = 8  # that a field must have been on, before a page without it is looked at twice


class Alarm(Struct, frozen=True):
    """Something that is not as it was."""

    unit: str
    field: str  # ROWS: rows of a page
    kind: Kind
    since: float
    sentence: str  # "field price of handler product is empty on 12 of 12 pages; it was filled on 99 %"


class Doubt(Struct, frozen=True):
    """What a page lacks."""

    field: str
    alarm: bool  # there is an alarm; otherwise it may be this page alone
    lasting: bool  # … which did not begin just now, and so may not end by itself
    sentence: str


class QualityReport(Struct, frozen=True):
    """What people are told at the end of a run."""

    alarms: tuple[str, ...] = ()  # sentences, with the host
    empty: tuple[str, ...] = ()  # fields that were empty on every page: sentences, without a host
    hosts: int = 0  # with alarms


def alarms(quality: Quality) -> list[Alarm]:
    return [
        Alarm(unit, name, kind, state.since, sentence(unit, name, state))
        for unit, one in quality.items()
        for name, state in one.fields.items()
        if state.alarm and (kind := state.kind) is not None
    ]


def number_of_alarms(quality: Quality) -> int:
    return sum(state.alarm > 0 for one in quality.values() for state in one.fields.values())


def never_filled(quality: Quality) -> Iterator[tuple[str, str, int]]:
    """Fields that were empty on every page so far: unit, field, pages."""
    for unit, one in quality.items():
        for name, state in one.fields.items():
            if not state.filled and not state.new_filled and not state.alarm and not state.unnamed:
                yield unit, name, state.pages + state.new_pages


def where(unit: str, field: str) -> str:
    """ "field price of handler product"; of rows: "handler product"."""
    _, handler, table = (*unit.split("/", 2), "")[:3]
    of = f"handler {handler}" + (f" (rows of {table})" if table else "")
    return of if field == ROWS else f"field {field} of {of}"


def sentence(unit: str, field: str, state: FieldState) -> str:
    if state.kind == "empty":
        pages, empty = state.new_pages, round(state.new_pages - state.new_filled / 100)
        if state.is_number:
            empty = round(state.new_pages - state.new_numeric / 100)
        share = f"{state.share_seen:.0%}".replace("%", " %")
        if field == ROWS:
            return f"{where(unit, field)} yields no rows on {empty} of {pages} pages; it did on {share}"
        what = "is no number" if state.is_number and state.new_filled > state.new_numeric else "is empty"
        return f"{where(unit, field)} {what} on {empty} of {pages} pages; it was filled on {share}"
    low, high = usual_range(state)
    was = f"{amount(low)} to {amount(high)}" if amount(low) != amount(high) else amount(low)
    now = amount(state.now_mean / 1000)
    if field == ROWS:
        return f"{where(unit, field)} yields about {now} rows a page; it was {was}"
    return f"{where(unit, field)} is about {now} on the latest pages; it was {was}"


def usual_range(state: FieldState) -> tuple[float, float]:
    """The sizes that two thirds of the numbers are between."""
    spread = (state.variance / 1000) ** 0.5
    return state.mean / 1000 - spread, state.mean / 1000 + spread


def amount(size: float) -> str:
    """The number of a size, with three digits."""
    number = number_of(size)
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


# -- one page


def doubts(quality: Quality, sample: PageSample) -> list[Doubt]:
    """What a page lacks that is usually there; not if that has been an alarm for a week. What is there is not doubted,
    whatever it is: another number may well be right."""
    one = quality.get(sample.unit)
    if one is None or not one.settled:
        return []
    found = []
    for name, state in one.fields.items():
        if name != ROWS and not sample.fields[ROWS].filled:
            continue
        seen = sample.fields.get(name, FieldSeen(0.0, named=False))
        if state.unnamed and not seen.named:
            continue
        if state.kind == "empty":
            if seen.filled < state.share / 2 and sample.at - state.since <= LONGEST:
                lasting = sample.at - state.since >= SOON
                found.append(Doubt(name, True, lasting, sentence(sample.unit, name, state)))
        elif not seen.filled and (_is_usual(state) or state.evidence >= _SUSPECT):
            what = "yields no rows" if name == ROWS else "is empty"
            told = f"{where(sample.unit, name)} {what} on this page, and usually is not"
            found.append(Doubt(name, False, False, told))
    return found


def _is_usual(state: FieldState) -> bool:
    return state.pages >= _ENOUGH_PAGES and state.filled >= 100 * USUAL * state.pages


# -- what a person decides


def accept(quality: Quality, handler: str | None = None, field: str | None = None) -> Quality:
    """What is now is normal: of all alarms, or of those of a handler or a field."""
    found = dict(quality)
    for one in alarms(quality):
        if handler in (None, handler_of(one.unit)) and field in (None, one.field, one.field or "rows"):
            unit = found[one.unit]
            fields = {**unit.fields, one.field: accepted(unit.fields[one.field])}
            found[one.unit] = replace(unit, fields=fields)
    return found


def handler_of(unit: str) -> str:
    return unit.split("/", 2)[1]

"""Notices when what a handler yields for a host is not what it was. Pure.

    page's rows ──▶ sample ──▶ evidence that a field is emptier, or its numbers larger or smaller, than they were
                                  │ none any more: it was chance, and is learnt
                                  │ enough: an ALARM. What is broken is not learnt
                                  ▼
                                alarm ──▶ pages are as before: it ends │ a person accepts: what is now is normal

What is normal is learnt in the first run, or at the first visits; nothing is told before. Evidence is the sum of
likelihood ratios, which falls to 0 when pages are as before (a CUSUM test). It compares "a bit fewer than usual" with
"hardly any", so that a sale or some products that are sold out are no alarm. A run of such pages that was normal once
(the last pages of a list are the sold-out ones) is remembered as a peak, and the next one must be longer.

All numbers are whole ones, in hundredths or thousandths: a field is about 30 bytes of a host's record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shoal.policy.quality_sample import ROWS, FieldSeen, PageSample

Kind = Literal["empty", "large", "small"]

FIELDS = 40  # watched of a host
_NAMES = 800  # characters of their names
_NAME = 60  # … of one of them
UNITS = 8  # kinds of rows watched of a host
_STALE = 90 * 86_400.0  # seconds after which a kind that was not seen makes room for another

_EMPTY_ENOUGH = 600  # hundredths of evidence: 8 pages that are all empty, of a field that was always filled
_RANGE_ENOUGH = 700
_MARGIN = 1.5  # times the highest evidence that was chance
_TOLERATED, _BROKEN = 0.6, 0.1  # shares of the usual number of filled pages that are compared
_SPEAKS_AGAINST = math.log(_BROKEN / _TOLERATED)  # that a field is broken: that it is filled
_OFTEN = 0.5  # share of pages: a field that is filled more rarely is not watched
USUAL = 0.9  # … than this is usually filled
_ENOUGH_PAGES = 4
_PAGES_BEFORE = 60  # at most, that a new field is known not to have been on
_MOST_PAGES = 600  # that the past weighs
_WEIGHT_OF_AGAIN = 0.25  # of a page that was empty a moment ago, and still is
_NUMERIC = 0.9  # share of filled pages: the field is a number
_NEAR, _FAR = 0.3, 1.3  # decimal digits that numbers may shift by, and those that are too many
_JUMP = 1.0  # decimal digits that a number is not expected to change by between two visits
_MEAN_OF = 50  # pages that mean and spread of numbers are of
_LEAST_SPREAD = 0.15
_GUESSES, _GUESS = (
    5.0,
    5.0 * 0.5**2,
)  # numbers that a first guess of the spread weighs, and the sum of their squares
_MOST_EVIDENCE, _LEAST_EVIDENCE = 1.0, -2.0  # of one number
_FORGET_PEAK = 0.98  # a day
SOON = 3600.0  # seconds in which nobody mends a spider
_ACCEPTED = 40  # pages in a row that a person accepts with one word
_DAY = 86_400.0
LONGEST = 7 * _DAY  # seconds in which a person can be expected to look at an alarm
_MOST = 60_000


class FieldState(Struct, frozen=True, array_like=True):
    """What is known about a field. Pages in hundredths, sizes (see `size_of`) in thousandths, evidence in
    hundredths."""

    # -- what is normal
    pages: int = 0  # with rows, since it was first seen (not in hundredths)
    filled: int = 0
    numeric: int = 0
    mean: int = 0  # of the sizes of its numbers
    variance: int = 0
    # -- what may not be normal
    evidence: int = 0  # of being empty
    large: int = 0
    small: int = 0
    top: int = 0  # the highest evidence of being empty since it was 0
    range_top: int = 0
    new_pages: int = 0  # since evidence was 0; not learnt yet
    new_filled: int = 0
    new_numeric: int = 0
    new_numbers: int = 0  # since evidence of another range was 0
    new_away: int = 0  # the sum of their distances from the mean
    new_square: int = 0  # … and of the squares
    # -- what was chance
    peak: int = 0  # the highest evidence of being empty
    range_peak: int = 0
    # -- the latest pages
    now: int = 0  # thousandths of pages that are filled
    now_mean: int = 0
    alarm: int = 0  # 1: empty, 2: large, 3: small
    since: int = 0  # when the alarm began
    run: int = 0  # … and in which run
    unnamed: int = 0  # 1: the handler's code was changed, and no row has had the field since

    @property
    def share(self) -> float:
        """Of pages on which it is usually filled; a little less if these were few."""
        return self.filled / 100 / (self.pages + 1)

    @property
    def share_seen(self) -> float:
        """Of pages on which it was filled."""
        return (self.numeric if self.is_number else self.filled) / 100 / self.pages if self.pages else 0.0

    @property
    def is_number(self) -> bool:
        return self.numeric >= _NUMERIC * self.filled > 0 and self.numeric >= 100 * _ENOUGH_PAGES

    @property
    def spread(self) -> float:
        return max(math.sqrt(self.variance / 1000), _LEAST_SPREAD)

    @property
    def kind(self) -> Kind | None:
        return _KINDS[self.alarm]


_KINDS: tuple[Kind | None, ...] = (None, "empty", "large", "small")


class UnitState(Struct, frozen=True, array_like=True):
    """What is known about one kind of rows of a handler."""

    fields: dict[str, FieldState] = {}
    first: int = 0  # the run that it was first seen in
    settled: bool = False  # there was another run, or a second visit: what is normal is known
    at: int = 0  # when it was last seen
    day: int = 0  # when peaks were last lowered
    code: int = 0  # of the handler
    unwatched: int = 0  # fields, or other kinds of rows, that there was no room for


Quality = Mapping[str, UnitState]
NO_QUALITY: Quality = {}


# -- learning


def observe(quality: Quality, sample: PageSample) -> Quality:
    """What is known after one more page. Pages come in any order."""
    old = quality.get(sample.unit)
    if old is None:
        if len(quality) >= UNITS and not (quality := _without_stale(quality, sample.at)):
            return quality
        if len(quality) >= UNITS:
            first = next(iter(quality))
            return {**quality, first: replace(quality[first], unwatched=quality[first].unwatched + 1)}
        old = UnitState(first=sample.job, code=sample.code, day=int(sample.at / _DAY))
    taken = [name for unit, state in quality.items() if unit != sample.unit for name in state.fields]
    return {**quality, sample.unit: _observed(_begun(old, sample), sample, taken)}


def _without_stale(quality: Quality, at: float) -> Quality:
    return {unit: state for unit, state in quality.items() if state.at > at - _STALE}


def _begun(state: UnitState, sample: PageSample) -> UnitState:
    """Before the page is looked at: whether what is normal is known by now, and by which code."""
    if not state.settled and (sample.job != state.first or sample.revisit):
        fields = {name: _settled(one) for name, one in state.fields.items()}
        state = replace(state, settled=True, fields=fields)
    if sample.code and state.code and sample.code != state.code:
        fields = {name: replace(one, unnamed=int(name != ROWS)) for name, one in state.fields.items()}
        state = replace(state, fields=fields)
    if (days := int(sample.at / _DAY) - state.day) > 0:
        kept = _FORGET_PEAK**days
        fields = {
            name: replace(one, peak=int(one.peak * kept), range_peak=int(one.range_peak * kept))
            for name, one in state.fields.items()
        }
        state = replace(state, fields=fields, day=state.day + days)
    return replace(state, at=max(state.at, int(sample.at)), code=sample.code or state.code)


def _settled(state: FieldState) -> FieldState:
    peak = max(state.range_peak, state.range_top)
    return replace(_learnt(state), large=0, small=0, range_top=0, range_peak=peak)


def _observed(state: UnitState, sample: PageSample, taken: list[str]) -> UnitState:
    seen, fields, unwatched = sample.fields, dict(state.fields), 0
    has_rows = seen[ROWS].filled > 0
    # Pages without a new field are known, too: it may be one of a category that comes last.
    before = min(fields[ROWS].filled // 100, _PAGES_BEFORE) if ROWS in fields else 0
    room, letters = FIELDS - len(taken), _NAMES - sum(map(len, taken))
    letters -= sum(map(len, fields))
    for name in seen:
        if name not in fields:
            if len(fields) >= room or len(name) > min(_NAME, letters):
                unwatched += 1
                continue
            letters -= len(name)
            fields[name] = FieldState(pages=before, now=round(1000 * seen[name].filled))
    for name, one in fields.items():
        if name == ROWS or has_rows:
            fields[name] = _field(one, seen.get(name, _MISSING), sample, settled=state.settled)
    return replace(state, fields=fields, unwatched=max(state.unwatched, unwatched))


_MISSING = FieldSeen(0.0, named=False)


def _field(old: FieldState, seen: FieldSeen, sample: PageSample, *, settled: bool) -> FieldState:
    if old.unnamed:
        if not seen.named:
            return old  # left out on purpose, by all that is known
        old = replace(old, unnamed=0)
    filled = seen.numeric if old.is_number else seen.filled
    state = replace(
        old,
        now=round(old.now + (1000 * filled - old.now) / 5),
        new_pages=min(old.new_pages + 1, _MOST),
        new_filled=min(old.new_filled + round(100 * seen.filled), _MOST),
        new_numeric=min(old.new_numeric + round(100 * seen.numeric), _MOST),
    )
    if seen.number is not None:
        state = _measured(state, seen, seen.number, sample, settled=settled)
    return _weighed(state, filled, sample, settled=settled)


def _weighed(state: FieldState, filled: float, sample: PageSample, *, settled: bool) -> FieldState:
    """Adds the evidence of being empty."""
    usual = min(state.share, 0.995)
    if state.alarm in (2, 3):
        return state  # one at a time
    if not state.alarm and (usual < _OFTEN or state.pages < _ENOUGH_PAGES):
        return _learnt(state)
    speaks = filled * _SPEAKS_AGAINST
    if filled < 1:
        weight = _WEIGHT_OF_AGAIN if sample.again else 1.0
        speaks += weight * (1 - filled) * math.log((1 - _BROKEN * usual) / (1 - _TOLERATED * usual))
    step = round(100 * speaks)
    evidence = min(max(0, state.evidence + step), _MOST)
    if state.alarm:
        state = replace(
            state, evidence=min(evidence, _EMPTY_ENOUGH), top=min(state.top + max(0, step), _MOST)
        )
        return _ended_by_itself(state, sample) if evidence == 0 else state
    if evidence == 0:
        return _learnt(state)
    state = replace(state, evidence=evidence, top=max(state.top, evidence))
    return _alarmed(state, 1, sample) if settled and evidence >= enough(state) else state


def _alarmed(state: FieldState, alarm: int, sample: PageSample) -> FieldState:
    return replace(state, alarm=alarm, since=int(sample.at), run=sample.job)


def _ended_by_itself(state: FieldState, sample: PageSample) -> FieldState:
    """What was broken is not learnt. But if all is well again in the same run, or soon, nobody has mended anything: it
    was a longer run of such pages than ever before."""
    soon = sample.at - state.since < SOON
    if state.run != sample.job or (sample.revisit and not soon):
        return ended(state)
    peak, range_peak = max(state.peak, state.top), max(state.range_peak, state.range_top)
    if state.kind == "empty":
        return replace(ended(state), peak=peak)
    return replace(ended(state), range_peak=range_peak)


def enough(state: FieldState) -> float:
    """The evidence of being empty that is an alarm."""
    return max(_EMPTY_ENOUGH, _MARGIN * state.peak)


def _measured(
    state: FieldState, seen: FieldSeen, size: float, sample: PageSample, *, settled: bool
) -> FieldState:
    """Adds the evidence of numbers that are too large or too small."""
    lately = 1000 * size if not state.numeric else state.now_mean + (1000 * size - state.now_mean) / 2
    now_mean, known = round(lately), state.numeric / 100
    if state.alarm:
        state = replace(state, now_mean=now_mean)
        if state.alarm == 1:
            return state
        if sample.at - state.since > LONGEST:
            state = accepted(state)  # everybody has had time to say that it is wrong
    if not state.alarm:
        away = size - state.mean / 1000
        state = replace(
            state,
            now_mean=now_mean,
            new_numbers=state.new_numbers + 1,
            new_away=state.new_away + round(1000 * away),
            new_square=min(state.new_square + round(1000 * away**2), _MOST),
        )
        if not state.is_number:
            return _averaged(state, known)
    steps = _steps(state, size, known)
    if (
        seen.before is not None and not state.alarm
    ):  # numbers of an alarm are written: the next visit finds them
        fits = abs(size - state.mean / 1000) <= abs(seen.before - state.mean / 1000)
        steps = _paired(0.0 if fits else size - seen.before, again=sample.again)
    large, small = (
        min(max(0, old + step), _MOST) for old, step in zip((state.large, state.small), steps, strict=True)
    )
    if state.alarm:
        step = steps[state.alarm - 2]
        state = replace(
            state,
            large=min(large, _RANGE_ENOUGH),
            small=min(small, _RANGE_ENOUGH),
            range_top=min(state.range_top + max(0, step), _MOST),
        )
        over = (large, small)[state.alarm - 2] == 0
        return _ended_by_itself(state, sample) if over else state
    highest = max(large, small)
    if highest == 0:
        if state.large or state.small or state.range_top:
            peak = max(state.range_peak, state.range_top)
            state = replace(state, large=0, small=0, range_peak=peak, range_top=0)
        return _averaged(state, known)
    state = replace(state, large=large, small=small, range_top=max(state.range_top, highest))
    limit = max(_RANGE_ENOUGH, _MARGIN * state.range_peak)
    if settled and highest >= limit:
        return _alarmed(state, 2 if large >= small else 3, sample)
    return state if settled else _averaged(state, known)


def _steps(state: FieldState, size: float, known: float) -> tuple[int, int]:
    """The evidence of one number, in hundredths: of being too large, of being too small."""
    variance = (state.spread**2 * known + _GUESS) / (known + _GUESSES)
    gain, middle = (_FAR - _NEAR) / variance, (_NEAR + _FAR) / 2
    away = size - state.mean / 1000
    large, small = gain * (away - middle), gain * (-away - middle)
    return _bounded(large), _bounded(small)


def _paired(jump: float, *, again: bool) -> tuple[int, int]:
    """The evidence of a number whose value at the page's last visit is known. That says more than all others."""
    step = _bounded(_MOST_EVIDENCE * (_WEIGHT_OF_AGAIN if again else 1.0))
    against = _bounded(_LEAST_EVIDENCE)
    large, small = (
        step if up >= _JUMP else against if up < _NEAR else 0 for up in (jump, -jump)
    )  # stock levels go up on some pages and down on others: that is no alarm
    return large, small


def _bounded(step: float) -> int:
    return round(100 * min(_MOST_EVIDENCE, max(_LEAST_EVIDENCE, step)))


def _averaged(state: FieldState, known: float) -> FieldState:
    """The mean and variance of sizes, with the numbers that were not learnt yet."""
    new = state.new_numbers
    rate = new / (min(known, _MEAN_OF) + new)
    away, square = state.new_away / 1000 / new, state.new_square / 1000 / new
    variance = (1 - rate) * state.variance / 1000 + rate * square - (rate * away) ** 2
    return replace(
        state,
        mean=round(state.mean + 1000 * rate * away),
        variance=min(max(0, round(1000 * variance)), _MOST),
        new_numbers=0,
        new_away=0,
        new_square=0,
    )


def _learnt(state: FieldState) -> FieldState:
    """What was collected since evidence was 0 is normal, too."""
    pages, filled = state.pages + state.new_pages, state.filled + state.new_filled
    numeric = state.numeric + state.new_numeric
    if pages > _MOST_PAGES:
        pages, filled, numeric = pages // 2, filled // 2, numeric // 2
    return replace(
        state,
        pages=pages,
        filled=filled,
        numeric=numeric,
        peak=max(state.peak, state.top),
        evidence=0,
        top=0,
        new_pages=0,
        new_filled=0,
        new_numeric=0,
    )


def _unsaid(state: FieldState) -> FieldState:
    return replace(state, evidence=0, top=0, new_pages=0, new_filled=0, new_numeric=0)


def ended(state: FieldState) -> FieldState:
    """Without alarm and evidence; nothing is learnt."""
    return replace(
        _unsaid(state),
        large=0,
        small=0,
        range_top=0,
        new_numbers=0,
        new_away=0,
        new_square=0,
        alarm=0,
        since=0,
        run=0,
    )


def accepted(state: FieldState) -> FieldState:
    """What is now is normal, also for that many pages in a row."""
    if state.kind != "empty":
        peak = max(state.range_peak, state.range_top)
        return replace(ended(state), mean=state.now_mean, range_peak=peak)
    peak = max(state.peak, state.top, min(state.new_pages, _ACCEPTED) * 100)
    return replace(
        ended(state),
        pages=state.new_pages,
        filled=state.new_filled,
        numeric=state.new_numeric,
        peak=peak,
    )

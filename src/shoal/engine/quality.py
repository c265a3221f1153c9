"""Looks at what a page yields before it is written: it may lack something, and what was written before is better.

    nothing is missing, whatever the numbers are    ──▶ written
    a usually filled field is empty, no alarm yet   ──▶ a second look: the page is fetched again in a while
    … still so, and no alarm came of it             ──▶ written: it is this page alone
    … and there is an alarm                         ──▶ held: old rows stay, for a week at most

What is held of a page with a record waits for its next visit; of others, the items are rejected, and can be replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.hosts.cache import HostCache
from shoal.model import Lease, Row, Task
from shoal.model.built_in import is_built_in
from shoal.model.page_record import PageRecord
from shoal.policy.quality_alarms import Doubt, doubts, number_of_alarms
from shoal.policy.quality_sample import ROWS, PageSample, is_filled, samples_of, size_of, unit_of
from shoal.settings import Settings
from shoal.sink.changes import fields_before
from shoal.spider.default import SummarySpider
from shoal.spider.handler_code import code_of
from shoal.spider.link_check import LinkSpider
from shoal.spider.spider import Handler, Spider

SECOND_LOOK = "second_look"  # the kind of a failure that is none
_LOOKS = 2  # visits that a page is held for, without an alarm
_PAGES = 12  # of the host that come before a second look …
_SOONEST, _LATEST = 2.0, 60.0  # … in so many seconds


class Held(Struct, frozen=True):
    """Why what a page yields is not written."""

    reason: str
    sure: bool  # there is an alarm; otherwise the page is looked at again
    visited: bool = False  # the page was visited before, and its rows of then stay


class Quality:
    """Watches what the handlers of one spider yield. `replaces`: rows go where there may be older ones with the same
    keys, as in a database; a file has the rows of one job only."""

    def __init__(
        self, spider: Spider, settings: Settings, hosts: HostCache, *, replaces: bool = False
    ) -> None:
        self._spider = spider
        self._hosts = hosts
        self._replaces = replaces
        self._holds = settings.quality == "hold"
        self._watches = is_watched(spider, settings)
        self._codes: dict[str, int] = {}  # by handler

    def check(self, task: Task, handler: Handler, rows: Sequence[Row]) -> Held | None:
        """Learns from what a page yields. Not None: it is not to be written."""
        if not self._watches or is_built_in(handler.name):
            return None
        record = task.record if task.record is not None and task.record.visits else None
        known = self._hosts.quality(task.host)
        found = samples_of(self._spider.name, handler.name, rows, known, handler.item)
        again = is_second_look(task) or (record is not None and record.held > 0)
        code = self._code(handler)
        samples = [
            replace(sample, again=again, revisit=record is not None, code=code)
            for sample in found
            if record is None or sample.rows or self._had_rows(record, handler, sample)
        ]
        before = [fields for _, fields in fields_before(record.rows)] if record is not None else []
        samples = [_with_sizes_before(sample, before) for sample in samples]
        seen = self._hosts.record_rows(task.host, samples)
        if not self._holds:
            return None
        known = self._hosts.quality(task.host)  # the page may be the one that gives the alarm
        told = [one for sample in seen for one in doubts(known, sample)]
        if record is not None:
            return self._of_visit(record, before, told)
        return self._of_page(task, rows, told) if told else None

    def unchanged(self, task: Task, handler: Handler) -> None:
        """The page is as it was at its last visit, so its handler does not run. That ends alarms, too."""
        record, known = task.record, self._hosts.quality(task.host)
        if not self._watches or record is None or not number_of_alarms(known):
            return
        rows = [Row(msgspec.json.encode(fields), table=table) for table, fields in fields_before(record.rows)]
        if rows:
            found = samples_of(self._spider.name, handler.name, rows, usual=handler.item)
            self._hosts.record_rows(task.host, [replace(sample, revisit=True) for sample in found])

    def _of_visit(
        self, record: PageRecord, before: Sequence[Mapping[str, Any]], told: Sequence[Doubt]
    ) -> Held | None:
        new = [one for one in told if not _was_so(before, one)]
        if sure := [one for one in new if one.alarm]:
            return Held(sure[0].sentence, True, True)
        return Held(new[0].sentence, False, True) if new and record.held < _LOOKS else None

    def _of_page(self, task: Task, rows: Sequence[Row], found: Sequence[Doubt]) -> Held | None:
        """Rows that replace nothing are written, whatever they are. An alarm that began just now may be a category that
        lacks a field, and be over at the second look."""
        if not self._replaces or not any(row.ident for row in rows):
            return None
        again = is_second_look(task)
        if sure := [one for one in found if one.alarm and (again or one.lasting)]:
            return Held(sure[0].sentence, True)
        return None if again else Held(found[0].sentence, False)

    def _had_rows(self, record: PageRecord, handler: Handler, sample: PageSample) -> bool:
        """Whether the page had rows of that kind at its last visit; if not, it is no surprise that it has none."""
        units = {unit_of(self._spider.name, handler.name, row.table) for row in record.rows}
        usual = unit_of(self._spider.name, handler.name, handler.item)
        if sample.unit == unit_of(self._spider.name, handler.name):
            return sample.unit in units or usual in units
        return sample.unit in units

    def _code(self, handler: Handler) -> int:
        if handler.name not in self._codes:
            self._codes[handler.name] = int.from_bytes(code_of(handler), "big")
        return self._codes[handler.name]


def is_watched(spider: Spider, settings: Settings) -> bool:
    """Rows of a crawl without code are what pages say, whatever that is: nothing of it can break."""
    usual = isinstance(spider, LinkSpider) or (isinstance(spider, SummarySpider) and not settings.extract)
    return settings.quality != "off" and not usual


def wait_for_second_look(lease: Lease) -> float:
    """Seconds, in which enough other pages of the host are looked at."""
    return min(max(_SOONEST, _PAGES * lease.interval), _LATEST)


def is_second_look(task: Task) -> bool:
    return any(failure.kind == SECOND_LOOK for failure in task.history)


def _with_sizes_before(sample: PageSample, before: Sequence[Mapping[str, Any]]) -> PageSample:
    """The sample with the numbers of the page's last visit beside those of now."""
    if not before:
        return sample
    fields = {
        name: seen
        if seen.number is None or name == ROWS
        else replace(seen, before=_size_before(before, name))
        for name, seen in sample.fields.items()
    }
    return replace(sample, fields=fields)


def _was_so(before: Sequence[Mapping[str, Any]], doubt: Doubt) -> bool:
    """Whether the page lacked it at its last visit already."""
    if doubt.field == ROWS or not before:
        return False
    return not any(is_filled(_value(fields, doubt.field)) for fields in before)


def _size_before(before: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean size of a number at the page's last visit."""
    sizes = [size for fields in before if (size := size_of(_value(fields, name))) is not None]
    return sum(sizes) / len(sizes) if sizes else None


def _value(fields: Mapping[str, Any], name: str) -> Any:
    if name in fields:
        return fields[name]
    outer, _, inner = name.partition(".")
    around = fields.get(outer)
    return around.get(inner) if isinstance(around, dict) else None

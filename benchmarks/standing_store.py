"""What the store of a job that never ends takes up over months, by kind, with and without retention.

    python -m benchmarks.standing_store                      # 2,000 pages, four visits a day, 60 days, SQLite
    python -m benchmarks.standing_store --pages 500 --days 20

The queue is real, time is not: pages are visited without being fetched, so that two months take a minute. Of a hundred
visits five find a change, and one of a thousand ends as a dead letter, of which one is 2 KB. Every day one of a hundred
pages is gone for good, and as many are found anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from pathlib import Path

from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Inventory
from shoal.inspect.retention import DAY, prune_letters, retention_of
from shoal.model import Dead, Done, Failure, Lease, Revisit, Row, Settlement, Snapshot, Task
from shoal.model.page_record import PageRecord
from shoal.settings import Settings
from shoal.sink.changes import kept
from shoal.testing.conformance.tools import claim, make_task, spec
from shoal.testing.manual_clock import ManualClock

HOSTS = 20
AT_ONCE = 500
CHANGED, FAILED, GONE = 0.05, 0.001, 0.01  # a visit, a visit, a day
KINDS = ("queues", "seen", "dead letters", "unused")


def item(url: str, price: int) -> Row:
    """A product, as shops have them."""
    fields = {
        "sku": url[-12:],
        "name": f"Lamp {url[-6:]} with a shade of linen",
        "price": price / 100,
        "currency": "EUR",
        "in_stock": price % 7 > 0,
        "url": url,
        "description": "A lamp for the desk, for reading and for long evenings. " * 3,
    }
    return Row(json.dumps(fields).encode() + b"\n", table="product", by=("sku",), ident=url[-12:])


class Month:
    """One store, and what happens to it."""

    def __init__(self, frontier: SqliteFrontier, clock: ManualClock, pages: int, visits: int) -> None:
        self._frontier = frontier
        self._clock = clock
        self._pages = pages
        self._interval = DAY / visits
        self._rng = random.Random(1)
        self._made = 0
        self.visits = self.letters = 0

    async def begin(self) -> None:
        await self._frontier.open_job(spec())
        await self._frontier.add("job", [self._new() for _ in range(self._pages)])

    def _new(self) -> Task:
        self._made += 1
        return make_task(f"https://shop{self._made % HOSTS}.test/catalogue/lamps/{self._made:012}")

    async def pass_day(self) -> None:
        until = self._clock.time() + DAY
        while self._clock.time() < until:
            claimed = await claim(self._frontier, AT_ONCE, lease_seconds=600)
            if claimed.leases:
                await self._frontier.settle([self._visited(lease) for lease in claimed.leases])
            else:
                self._clock.advance(min(max(claimed.next_due, 1.0), until - self._clock.time() + 0.1))

    def _visited(self, lease: Lease) -> Settlement:
        self.visits += 1
        task, now, chance = lease.task, self._clock.time(), self._rng.random()
        if chance < FAILED and task.record is not None:
            self.letters += 1
            failure = Failure("handler", "ValueError: no price (shop.py:12)", at=now, attempt=1)
            return Settlement(lease, Dead(failure, Snapshot(200, body=b"x" * 1_500)), (self._new(),))
        if chance < FAILED + GONE * self._interval / DAY and task.record is not None:
            return Settlement(lease, Done(), (self._new(),))
        record = task.record or PageRecord()
        rows = record.rows
        if not rows or chance > 1 - CHANGED:
            rows = kept([item(task.url, self._rng.randrange(1_000, 99_999))])
        seen = PageRecord(
            visits=record.visits + 1,
            checked_at=now,
            handled_at=now,
            changed_at=now,
            interval=self._interval,
            etag='"5e1f-62a9b1c3d"',
            modified="Tue, 14 Nov 2023 22:13:20 GMT",
            body=b"12345678",
            rows=rows,
            rate=b"12345678",
        )
        return Settlement(lease, Revisit(self._interval, seen))


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def shown(day: int, month: Month, found: Inventory, pages: int) -> None:
    sizes = {stock.kind: stock.size for stock in found.stocks}
    row(
        day,
        f"{month.visits:,}",
        f"{found.used / 1e6:.2f}",
        f"{found.used / pages:,.0f}",
        *(f"{sizes.get(kind, 0) / 1e6:.2f}" for kind in KINDS),
    )


async def measure(settings: Settings, pages: int, visits: int, days: int) -> None:
    letters = f"{settings.keep_letter_days:g} days" if settings.keep_letter_days else "for ever"
    print(f"\n{pages:,} pages, {visits} visits a day, dead letters kept {letters}; MB\n")
    row("day", "visits", "store", "B a page", *KINDS)
    print("|" + "---|" * (4 + len(KINDS)))
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteFrontier(Path(folder) / "s.db", clock) as frontier:
            month = Month(frontier, clock, pages, visits)
            await month.begin()
            for day in range(1, days + 1):
                await month.pass_day()
                await prune_letters(frontier, retention_of(settings))
                if day == 1 or day % max(1, days // 6) == 0:
                    shown(day, month, await frontier.take_stock(), pages)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--visits", type=int, default=4, help="of a page, a day")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--keep", type=float, nargs="*", default=[0, 14], help="days that dead letters stay")
    given = parser.parse_args()
    for keep in given.keep:
        asyncio.run(measure(Settings(keep_letter_days=keep), given.pages, given.visits, given.days))


if __name__ == "__main__":
    main()

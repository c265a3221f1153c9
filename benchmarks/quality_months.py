"""Quality alarms over simulated months: how often normal shops give one, and after how many pages a broken one does.

    python -m benchmarks.quality_months                     50 shops of each sort, 90 days
    python -m benchmarks.quality_months --shops 10 --days 30

Without network: what pages yield goes straight to `shoal.policy.quality`. Every day is a run of its own.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.model import Row
from shoal.policy.quality import NO_QUALITY, Quality, observe
from shoal.policy.quality_alarms import alarms
from shoal.policy.quality_sample import samples_of

DAY = 86_400.0
Item = dict[str, Any]
Habit = Callable[[int, int, list[Item], random.Random], list[list[Item]]]  # shop, day, goods -> pages


def goods(rng: random.Random, count: int) -> list[Item]:
    """As prices are: from a few euros to thousands, within one shop often less apart."""
    middle, spread = rng.uniform(0.8, 2.5), rng.uniform(0.2, 0.8)
    return [
        {
            "url": f"/p/{number}",
            "name": f"Thing {number}",
            "price": round(10 ** rng.gauss(middle, spread), 2),
            "was": round(10 ** rng.gauss(middle, spread), 2) if rng.random() < 0.3 else None,
            "rating": round(rng.uniform(1, 5), 1) if rng.random() < 0.5 else None,
            "award": "best buy" if rng.random() < 0.02 else None,
            "stock": rng.randrange(0, 200),
        }
        for number in range(count)
    ]


def shuffled(items: list[Item], rng: random.Random) -> list[list[Item]]:
    return [[item] for item in rng.sample(items, len(items))]


# -- habits: what a normal shop does


def steady(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    return shuffled(items, rng)


def sales(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """All prices -20 % in every second fortnight, -70 % for a week."""
    factor = 0.3 if 60 <= day < 67 else 0.8 if day // 14 % 2 else 1.0
    return shuffled([{**item, "price": round(item["price"] * factor, 2)} for item in items], rng)


def sold_out(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """From the 30th day on, three products of ten have no price; others every week."""
    chosen = random.Random(f"{shop} {day // 7}")
    gone = {item["url"] for item in items if day >= 30 and chosen.random() < 0.3}
    return shuffled([{**item, "price": None} if item["url"] in gone else item for item in items], rng)


def sold_out_last(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """Crawled in the order of a list that ends with what is sold out: a sixth to a quarter, more or less each day."""
    gone = round(len(items) * rng.uniform(0.17, 0.25))
    ordered = sorted(items, key=lambda item: hash((shop, day // 10, item["url"])))
    return [[item] for item in ordered[gone:]] + [[{**item, "price": None}] for item in ordered[:gone]]


def by_price(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """Crawled in the order of a list that is sorted by price."""
    return [[item] for item in sorted(items, key=lambda item: item["price"])]


def by_category(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """One category after another, in whatever order: of other prices, and with a field of its own."""
    third = len(items) // 3
    parts = [items[:third], items[third : 2 * third], items[2 * third :]]
    made = [
        [
            {**item, "price": item["price"] * 4**place, "size" if place == 1 else "volume": "M"}
            for item in part
        ]
        for place, part in enumerate(parts)
    ]
    rng.shuffle(made)
    return [page for part in made for page in shuffled(part, rng)]


def small(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    return shuffled(
        [{**item, "price": item["price"] if rng.random() < 0.9 else None} for item in items[:3]], rng
    )


def redesign(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """From the 40th day on, rows have five new fields, some of them rarely filled."""
    if day < 40:
        return shuffled(items, rng)
    return shuffled(
        [{**item, **{f"new{n}": n if rng.random() < n / 5 else None for n in range(1, 6)}} for item in items],
        rng,
    )


def growing(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """Listings: a page has 20 rows, and the last one few; every day there are more products."""
    shown = items[: len(items) // 3 + day % (len(items) // 2)]
    return [shown[place : place + 20] for place in range(0, len(shown), 20)]


def counting(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """Views begin at 0 and grow tenfold every fortnight; stock levels are others every day, over four digits."""
    grown = 10 ** (day / 14) - 1
    made = [
        {**item, "views": int(grown * rng.uniform(0.5, 2)), "stock": int(10 ** rng.uniform(0, 4))}
        for item in items
    ]
    return shuffled(made, rng)


def rising(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """All prices are 0 on the first day, and rise by one every day."""
    return shuffled([{**item, "price": day} for item in items], rng)


def mixed(shop: int, day: int, items: list[Item], rng: random.Random) -> list[list[Item]]:
    """A handler for all pages: a third of them are no products, and yield nothing."""
    return [page if rng.random() < 0.67 else [] for page in shuffled(items, rng)]


NORMAL: dict[str, Habit] = {
    "steady": steady,
    "sales (-20 %, -70 %)": sales,
    "sold out: 30 % without price": sold_out,
    "sold out last in the list": sold_out_last,
    "sorted by price": by_price,
    "category after category": by_category,
    "three pages, price comes and goes": small,
    "redesign with new fields": redesign,
    "listings of 20 rows, growing": growing,
    "a third of pages without rows": mixed,
    "views from 0, stock levels": counting,
    "prices from 0, up by 1 a day": rising,
}


# -- what breaks


def price_gone(item: Item) -> Item:
    return {**item, "price": None}


def field_left_out(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "price"}


def cents(item: Item) -> Item:
    return {**item, "price": round(item["price"] * 100)}


def words(item: Item) -> Item:
    return {**item, "price": "Price on request"}


def zero(item: Item) -> Item:
    return {**item, "price": 0}


def no_rows(item: Item) -> Item | None:
    return None


BROKEN: dict[str, tuple[Callable[[Item], Item | None], str]] = {
    "price is null": (price_gone, "price"),
    "price is left out": (field_left_out, "price"),
    "19.99 becomes 1999": (cents, "price"),
    "price is a sentence": (words, "price"),
    "price is 0": (zero, "price"),
    "no rows": (no_rows, ""),
}


class Shop:
    """What is known of one shop, page by page."""

    def __init__(self) -> None:
        self.quality: Quality = NO_QUALITY
        self.pages = 0

    def see(self, page: list[Item], day: int) -> set[str]:
        """The fields with an alarm after the page."""
        rows = [
            Row(msgspec.json.encode(item) + b"\n", None, "product", ("url",), item["url"]) for item in page
        ]
        for sample in samples_of("shops", "product", rows, self.quality):
            self.quality = observe(self.quality, replace(sample, job=day + 1, at=day * DAY))
        self.pages += 1
        return {one.field for one in alarms(self.quality)}


def false_alarms(habit: Habit, shops: int, days: int, pages: int) -> tuple[int, int, int]:
    """How many alarms began, at how many shops, on how many pages."""
    begun = affected = seen = 0
    for number in range(shops):
        rng = random.Random(f"{habit.__name__} {number}")
        items, shop, alarmed = goods(rng, pages), Shop(), set[str]()
        told = 0
        for day in range(days):
            for page in habit(number, day, items, rng):
                now = shop.see(page, day)
                told += len(now - alarmed)
                alarmed = now
        begun, affected, seen = begun + told, affected + bool(told), seen + shop.pages
    return begun, affected, seen


def until_told(
    breaks: Callable[[Item], Item | None], field: str, shops: int, days: int, pages: int
) -> list[int]:
    """After how many broken pages each shop is told, named by the right field; 0: never, or by another field."""
    found = []
    for number in range(shops):
        rng = random.Random(f"{breaks.__name__} {number}")
        items, shop = goods(rng, pages), Shop()
        for day in range(days):
            for page in shuffled(items, rng):
                shop.see(page, day)
        found.append(_until(shop, breaks, field, shuffled(items, rng), days))
    return found


def _until(
    shop: Shop, breaks: Callable[[Item], Item | None], field: str, pages: list[list[Item]], day: int
) -> int:
    for place, page in enumerate(pages, 1):
        broken = [made for item in page if (made := breaks(item)) is not None]
        if told := shop.see(broken, day):
            return place if told == {field} else 0
    return 0


def report(shops: int, days: int, pages: int) -> Iterator[str]:
    yield f"{shops} shops of each sort, {days} days, {pages} pages a day"
    yield f"{'normal':36} {'pages':>9} {'alarms':>7} {'shops':>6}"
    for name, habit in NORMAL.items():
        begun, affected, seen = false_alarms(habit, shops, days, pages)
        yield f"{name:36} {seen:9,} {begun:7} {affected:6}"
    for before in (1, days):
        yield f"\n{'broken after ' + str(before) + ' normal run(s)':36} {'told':>9} {'median':>7} {'most':>6}"
        for name, (breaks, field) in BROKEN.items():
            found = until_told(breaks, field, shops, before, pages)
            told = [place for place in found if place]
            most = f"{max(told):6}" if told else f"{'-':>6}"
            median = f"{math.ceil(statistics.median(told)):7}" if told else f"{'-':>7}"
            yield f"{name:36} {len(told):4} of {len(found):<2} {median} {most}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality_months", description=__doc__)
    parser.add_argument("--shops", type=int, default=50)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--pages", type=int, default=40, help="of a shop")
    options = parser.parse_args()
    began = time.monotonic()
    for line in report(options.shops, options.days, options.pages):
        print(line, flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

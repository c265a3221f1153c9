"""Compares rows with the truth: right or wrong, by shop and by field, with the reason for each wrong one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from shoal.testing.shops import Storefront, Truth

FIELDS = ("price", "currency", "availability")


class Verdict(Struct, frozen=True):
    """What came of one shop."""

    shop: str
    products: int
    missing: int  # products without a row
    doubled: int  # rows too many
    right: dict[str, int]  # products, by field
    wrong: list[str]  # a line for each field that is wrong, with an example

    @property
    def good(self) -> bool:
        return not self.missing and not self.doubled and not self.wrong


def judge(fronts: Sequence[Storefront], rows: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Rows have `url`, and the fields."""
    by_url: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_url[row["url"]].append(row)
    return [_judge_shop(front, by_url) for front in fronts]


def _judge_shop(front: Storefront, by_url: Mapping[str, Sequence[Mapping[str, Any]]]) -> Verdict:
    right: Counter[str] = Counter()
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    found = [(truth, by_url.get(truth.url, ())) for truth in front.truth()]
    for truth, rows in found:
        for field in FIELDS if rows else ():
            if is_right(field, rows[0].get(field), truth):
                right[field] += 1
            else:
                expected = getattr(truth, field)
                wrong[field].append(f"{rows[0].get(field)!r} for {str(expected)!r} at {truth.url}")
    lines = [
        f"{field}: {len(cases)} of {len(found)} wrong, such as {cases[0]}" for field, cases in wrong.items()
    ]
    missing = sum(not rows for _, rows in found)
    doubled = sum(max(0, len(rows) - 1) for _, rows in found)
    return Verdict(front.plan.name, len(found), missing, doubled, dict(right), lines)


def is_right(field: str, value: object, truth: Truth) -> bool:
    if field != "price":
        return bool(value == getattr(truth, field))
    try:
        return Decimal(str(value)) == truth.price
    except InvalidOperation:
        return False


def report(verdicts: Sequence[Verdict]) -> str:
    """A table, and the reasons."""
    width = max(len(one.shop) for one in verdicts)
    head = f"{'shop':{width}} {'products':>8} {'missing':>7} {'doubled':>7} " + " ".join(
        f"{field:>12}" for field in FIELDS
    )
    lines = [head]
    for one in verdicts:
        shares = " ".join(f"{_share(one, field):>12}" for field in FIELDS)
        lines.append(
            f"{one.shop:{width}} {one.products:8} {one.missing:7} {one.doubled:7} {shares}"
            f"  {'right' if one.good else 'WRONG'}"
        )
    lines += ["", *(f"{one.shop}: {line}" for one in verdicts for line in one.wrong)]
    good = sum(one.good for one in verdicts)
    total = sum(one.products for one in verdicts)
    fields = ", ".join(f"{field} {sum(one.right.get(field, 0) for one in verdicts)}" for field in FIELDS)
    lines.append(f"{good} of {len(verdicts)} shops right; of {total} products: {fields}")
    return "\n".join(lines)


def _share(one: Verdict, field: str) -> str:
    return f"{one.right.get(field, 0)}/{one.products}"

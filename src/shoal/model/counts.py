"""A job's own counters: names that its spider chooses (`page.count`), and a few that Shoal uses itself.

They are added to in the transaction that commits the page (`Settlement.counts`), so they are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.errors import SpiderError
from shoal.limits import COUNTER_MOST, COUNTER_NAME, COUNTER_NAMES, COUNTER_STEP
from shoal.text import one_line, writable

OTHER = "(other)"  # all names beyond COUNTER_NAMES
REJECTED = "rejected"  # items that did not validate
CACHED = "from the cache"  # pages that were in the archive, and were not fetched
NOT_ARCHIVED = "not archived (noarchive)"  # pages that ask for it
DROPPED = "dropped: "  # + reason: items that a hook dropped
PAGES_DROPPED = "pages dropped: "  # + reason: pages whose handler raised Drop
COST = "cost: "  # + pool: what requests through it have cost, in millionths
# -- of pages that are visited again and again
VISITS = "visits"
UNCHANGED = "visits: unchanged"  # nothing new: 304, the same body, or the same items
CHANGED = "visits: changed"
GONE = "visits: gone"  # 404 or 410 twice: the page is not visited any more
MISSED = "visits: missed"  # it failed, and is tried again at its next visit
HELD = "visits: held back"  # what it yields lacks something, so the rows from before stay
UNTOLD = "changes without old values"  # the page's items are too long to be remembered
VISIT_COUNTS = (VISITS, UNCHANGED, CHANGED, GONE, MISSED, HELD)
# -- of deliveries to webhooks
WEBHOOKS_SENT = "webhooks: sent"
WEBHOOKS_RETRIED = "webhooks: failed, tried again"  # attempts
WEBHOOKS_DEAD = "webhooks: given up"
WEBHOOK_COUNTS = (WEBHOOKS_SENT, WEBHOOKS_RETRIED, WEBHOOKS_DEAD)
MILLION = 1_000_000
_PREFIXES = (DROPPED, PAGES_DROPPED, COST)


class Counts(dict[str, int]):
    """What one page counts."""

    def add(self, name: str, number: int = 1) -> None:
        if name not in self and len(self) >= COUNTER_NAMES:
            name = OTHER
        self[name] = min(self.get(name, 0) + number, COUNTER_STEP)

    def settled(self) -> tuple[tuple[str, int], ...]:
        return tuple(self.items())


def check_count(name: object, number: object) -> None:
    """Raises if a spider cannot count this."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise SpiderError(f"page.count: the name is {name!r}; give a text in one line")
    if len(name) > COUNTER_NAME:
        raise SpiderError(f"page.count: the name {name[:20]!r}… has more than {COUNTER_NAME} characters")
    if is_reserved(name):
        raise SpiderError(f"page.count: Shoal itself counts {name!r}; give another name")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= COUNTER_STEP:
        raise SpiderError(
            f"page.count: {name!r} by {number!r}; give a whole number from 0 to {COUNTER_STEP:,}"
        )


def is_reserved(name: str) -> bool:
    names = (OTHER, REJECTED, CACHED, NOT_ARCHIVED, *VISIT_COUNTS, UNTOLD, *WEBHOOK_COUNTS)
    return name in names or name.startswith(_PREFIXES)


def with_reason(prefix: str, reason: str) -> str:
    """The name by which something is counted that had a reason, in the words of a spider."""
    return f"{prefix}{writable(one_line(reason)) or 'no reason given'}"[:COUNTER_NAME]


def within_limits(sums: Mapping[str, int]) -> dict[str, int]:
    """Sums over several shards, in the order of their names. Beyond COUNTER_NAMES the smallest are taken together."""
    ranked = sorted(sums.keys() - {OTHER}, key=lambda name: (-sums[name], name))
    kept = {name: sums[name] for name in ranked[:COUNTER_NAMES]}
    if rest := sums.get(OTHER, 0) + sum(sums[name] for name in ranked[COUNTER_NAMES:]):
        kept[OTHER] = rest
    return {name: min(kept[name], COUNTER_MOST) for name in sorted(kept)}


def own(counts: Mapping[str, int]) -> dict[str, int]:
    """Those that the spider counts, and what people should see beside them."""
    return {
        name: number for name, number in counts.items() if name in (OTHER, UNTOLD) or not is_reserved(name)
    }


def dropped(counts: Mapping[str, int]) -> dict[str, int]:
    """What was dropped, by reason: "pages dropped (sold out)", "items dropped (no price)"."""
    words = {PAGES_DROPPED: "pages dropped", DROPPED: "items dropped"}
    return {
        f"{what} ({name.removeprefix(prefix)})": number
        for prefix, what in words.items()
        for name, number in counts.items()
        if name.startswith(prefix)
    }


def webhooks(counts: Mapping[str, int]) -> dict[str, int]:
    """What became of deliveries: "sent", "failed, tried again", "given up"."""
    return {name.partition(": ")[2]: counts[name] for name in WEBHOOK_COUNTS if counts.get(name)}


def without_costs(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in counts.items() if not name.startswith(COST)}


def without_visits(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in counts.items() if name not in VISIT_COUNTS}


def costs(counts: Mapping[str, int]) -> dict[str, float]:
    """What requests have cost, by pool, in the unit of the settings."""
    return {
        name.removeprefix(COST): number / MILLION for name, number in counts.items() if name.startswith(COST)
    }


def costs_in_words(counts: Mapping[str, int], pages: int) -> str:
    """As "0.45 (residential 0.4, datacenter 0.05), 0.0009 a page"; "" if nothing cost anything."""
    found = costs(counts)
    total = sum(found.values())
    if not total:
        return ""
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    by_pool = ", ".join(f"{pool} {cost:.6g}" for pool, cost in ranked)
    a_page = f", {total / pages:.3g} a page" if pages else ""
    return f"{total:.6g} ({by_pool}){a_page}"

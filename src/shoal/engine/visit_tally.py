"""What visits of followed pages have shown, counted: how many found a change, and how late they were. Mergeable."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple

from shoal.model import Revisit, Settlement
from shoal.model.counts import VISIT_COUNTS, VISITS

_NAMES = frozenset(VISIT_COUNTS)


class VisitTally(Struct, frozen=True, array_like=True):
    """The first six are in the order of VISIT_COUNTS."""

    visits: int = 0
    unchanged: int = 0
    changed: int = 0
    gone: int = 0
    missed: int = 0
    held: int = 0
    waited: float = 0.0  # seconds from the visits before to these, in all
    late: float = 0.0  # … of these, those after they were due

    def __add__(self, other: VisitTally) -> VisitTally:
        return VisitTally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: VisitTally) -> VisitTally:
        """What has come since."""
        return VisitTally(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __bool__(self) -> bool:
        return self != NO_VISITS

    @property
    def freshness(self) -> float | None:
        """Share of the time for which these pages were checked within their interval; None: none was visited again."""
        return max(0.0, 1 - self.late / self.waited) if self.waited > 0 else None


NO_VISITS = VisitTally()


def visit_of(settlement: Settlement) -> VisitTally | None:
    """What the settlement says of a visit; None: its page is not followed."""
    if not settlement.counts:
        return None
    found = {name: number for name, number in settlement.counts if name in _NAMES}
    if not found:
        return None
    before, verdict = settlement.lease.task.record, settlement.verdict
    waited = late = 0.0
    if before is not None and before.visits and VISITS in found and isinstance(verdict, Revisit):
        waited = max(0.0, verdict.record.checked_at - before.checked_at)
        late = min(waited, max(0.0, verdict.record.checked_at - before.due))
    visits, unchanged, changed, gone, missed, held = (found.get(name, 0) for name in VISIT_COUNTS)
    return VisitTally(visits, unchanged, changed, gone, missed, held, waited, late)

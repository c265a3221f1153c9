"""What viewers are told of the pages that a standing job follows: all of them, or a fair part.

The frontier counts those that wait for their next visit (`Counters.waiting`). When each is due, and which are overdue,
is only known from the tasks themselves, so a home looks at some of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from shoal.model import Task

FOLLOWED_SEEN = 2_000  # pages that wait, and as many others, that one look reads


class Followed(Struct, frozen=True):
    """A page that was visited, and will be again."""

    task: Task  # with its record
    due: float  # when its next visit is due, or was, in the frontier's time
    waits: bool  # it is counted as waiting, though it may be due; otherwise its visit has begun, or stands in its queue


class Following(Struct, frozen=True):
    pages: Sequence[Followed] = ()
    next_due: float | None = None  # when the first of those that wait is due; None: none waits
    whole: bool = (
        True  # no page is missing. Otherwise those that wait are a sample, and of the others some are missing
    )


def stride(waiting: int, limit: int) -> int:
    """Every how manieth page a sample takes, so that it has about `limit` pages. By their numbers, which have nothing
    to do with when they are due."""
    return max(1, -(-waiting // max(1, limit)))


def overdue(task: Task) -> Followed | None:
    """A task that is pending, in hand or waits for a retry, if its page was visited before. One that was found on a
    later visit of another page has a record, too, but no visit yet."""
    record = task.record
    return Followed(task, record.due, False) if record is not None and record.visits else None

"""following: which pages of a standing job wait for their next visit, and which are overdue."""

from __future__ import annotations

from collections.abc import Iterable, Set

from shoal.frontier.following import FOLLOWED_SEEN, Followed, Following, overdue, stride
from shoal.model import Task


def following_of(
    delayed: Iterable[tuple[float, int, Task]],
    waiting: Set[int],
    others: Iterable[Task],
    limit: int = FOLLOWED_SEEN,
) -> Following:
    """`delayed`: the job's tasks that wait for a visit or a retry, and when they are due; `waiting`: the numbers of
    those that wait for a visit; `others`: the tasks that are pending or in hand."""
    delayed = list(delayed)
    every = stride(len(waiting), limit)
    pages = [Followed(task, due, True) for due, id, task in delayed if id in waiting and id % every == 0]
    late = [*others, *(task for _, id, task in delayed if id not in waiting)]
    pages += [page for task in late if (page := overdue(task)) is not None]
    dues = [due for due, id, _ in delayed if id in waiting]
    return Following(pages, min(dues, default=None), every == 1)

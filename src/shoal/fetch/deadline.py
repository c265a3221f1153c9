"""Cancels a page before its lease can run out.

The store takes a lease back when its worker is silent for too long, and gives the host's place to another worker. A
request after that would be one too many at the host.

    the store is asked for the lease, or to renew it ──── the lease's seconds, less a margin ────▶ the page is cancelled

Time counts from the question, so the store's own deadline comes later. In a process that was frozen, a page may send
before any timer runs: so transports call `check_lease` right before they send.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

_MARGIN = 1.0  # seconds to close a connection, …
_SHARE = 10  # … but at most this part of the lease

_current: ContextVar[LeaseDeadline | None] = ContextVar("shoal_tenure", default=None)


class LeaseDeadline:
    """The deadline of one page. `until` is in the loop's time."""

    __slots__ = ("is_handed_back", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.is_handed_back = False  # though its lease has not run out

    def __repr__(self) -> str:
        return f"<LeaseDeadline until {self.until:.3f}>"

    def hold(self) -> None:
        """Makes this the deadline of the current task and of the tasks it starts."""
        _current.set(self)

    def has_passed(self, now: float) -> bool:
        return now >= self.until


class LeaseDeadlines:
    """The deadlines of all pages of a process."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._margin = min(_MARGIN, lease / _SHARE)
        self._pages: dict[asyncio.Task[None], LeaseDeadline] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, asked: float, seconds: float) -> LeaseDeadline:
        """The deadline of a page whose lease was asked for at `asked`, for `seconds`."""
        return LeaseDeadline(asked + seconds - self._margin)

    def watch(self, page: asyncio.Task[None], deadline: LeaseDeadline) -> None:
        """Until `forget`."""
        self._pages[page] = deadline
        if self._timer is None:
            self._look_later()

    def renewed(self, asked: float) -> None:
        """The store has renewed the leases, as asked at `asked`. A page whose deadline passed before the answer came is
        cancelled: it may have lost its lease before the question arrived."""
        self._end_lapsed()
        until = asked + self._lease - self._margin
        for deadline in self._pages.values():
            deadline.until = max(deadline.until, until)

    def renewed_meanwhile(self, asked: float) -> None:
        """Another thread has renewed the leases, while the loop could not."""
        until = asked + self._lease - self._margin
        for deadline in tuple(self._pages.values()):
            deadline.until = max(deadline.until, until)

    def hand_others_back(self) -> None:
        """Cancels the pages other than the one that runs now. Called in any thread."""
        mine = _current.get()
        for page, deadline in tuple(self._pages.items()):
            if deadline is not mine and not deadline.is_handed_back:
                deadline.is_handed_back = True
                page.get_loop().call_soon_threadsafe(page.cancel, "a person is in a debugger")

    def forget(self, page: asyncio.Task[None]) -> None:
        """The page has ended."""
        del self._pages[page]
        if not self._pages and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        self._end_lapsed()
        self._look_later()

    def _look_later(self) -> None:
        held = [deadline.until for page, deadline in self._pages.items() if not page.cancelling()]
        if held:
            self._timer = asyncio.get_running_loop().call_at(min(held), self._look)

    def _end_lapsed(self) -> None:
        now = asyncio.get_running_loop().time()
        for page, deadline in self._pages.items():
            if deadline.has_passed(now) and not page.cancelling():
                page.cancel("its lease has run out")


def check_lease(now: float) -> None:
    """Call it right before a request is sent, with the loop's time: cancels the page if its lease may have run out."""
    deadline = _current.get()
    if deadline is not None and deadline.has_passed(now):
        raise asyncio.CancelledError("its lease has run out")


def check_handed_back() -> None:
    """Call it after a request that failed: cancels the page if it was handed back. It may have failed for that, or
    because the event loop stood still, and that says nothing about the host."""
    deadline = _current.get()
    if deadline is not None and deadline.is_handed_back:
        raise asyncio.CancelledError("a person is in a debugger")

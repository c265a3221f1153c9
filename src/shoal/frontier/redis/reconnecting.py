"""Waiting for a store that is away: how long until the next try, and what the log says."""

from __future__ import annotations

import random
from time import monotonic

from shoal.events import event
from shoal.frontier.redis.address import Address
from shoal.frontier.redis.faults import meaning, reason

FIRST_DELAY, LONGEST_DELAY = 0.05, 2.0


def delay(attempt: int) -> float:
    """Before the nth repetition: random, so that workers who lost the store together do not come back together."""
    return random.uniform(0, min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 16)))


class Outage:
    """The calls that wait. However many they are, the log has one line when it begins and one when it is over."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._told = False
        self._full = False
        self._since = 0.0
        self.waiting = 0

    def begin(self, error: BaseException) -> None:
        self.waiting += 1
        if self._told:
            return
        self._told, self._since = True, monotonic()
        store, why = str(self._address), reason(error)
        self._full = meaning(error) == "full"
        full = f"the store at {store} is full ({why}), waiting" if self._full else ""
        event("store_lost", full, store=store, reason=why)

    def end(self, answered: bool) -> None:
        """Of a call that waited. If all of them were cut short, as a viewer's are, a store that is away is still so; a
        full one may not be."""
        self.waiting -= 1
        if answered:
            self._over()
        elif self._full and not self.waiting:
            self._told = False

    def answered(self) -> None:
        """Of a call that did not wait."""
        if not self.waiting:
            self._over()

    def _over(self) -> None:
        if self._told:
            self._told = False
            event("store_back", store=str(self._address), seconds=monotonic() - self._since)

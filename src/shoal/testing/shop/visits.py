"""What visitors did, as the shop saw it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from msgspec import Struct


class Visit(Struct, frozen=True):
    """One request. Times are monotonic seconds, the same in all processes of the machine."""

    path: str  # with the query
    method: str
    status: int
    kind: str  # what was served: listing, product, login wall, sold out, file, …
    account: str  # "": not logged in
    started: float
    ended: float
    concurrent: int  # requests under way when this one arrived, itself included


class Login(Struct, frozen=True):
    account: str
    began: float  # when the form was given out
    ended: float  # when the answer was sent
    good: bool
    alive: int  # sessions of the account that were still good at this moment: 0, unless somebody logs in needlessly


class ShopLog(Struct, frozen=True):
    visits: list[Visit]
    logins: list[Login]

    def count(self) -> Counter[str]:
        """Visits by kind."""
        return Counter(visit.kind for visit in self.visits)

    def logins_at_once(self) -> int:
        """The most logins of one account that overlapped."""
        return max(
            (self._overlap(account) for account in {login.account for login in self.logins}), default=0
        )

    def _overlap(self, account: str) -> int:
        spans = [(login.began, login.ended) for login in self.logins if login.account == account]
        return max(sum(began <= start <= ended for began, ended in spans) for start, _ in spans)

    def least_gap(self) -> float:
        """Seconds between two requests, at least."""
        starts = sorted(visit.started for visit in self.visits)
        return min((later - earlier for earlier, later in pairwise(starts)), default=float("inf"))

    def most_in(self, seconds: float) -> int:
        """The most requests in any span of so many seconds."""
        starts = sorted(visit.started for visit in self.visits)
        most = first = 0
        for last, start in enumerate(starts):
            while start - starts[first] >= seconds:
                first += 1
            most = max(most, last - first + 1)
        return most

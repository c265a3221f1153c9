"""Where a redirect leads, or why it is not followed."""

from __future__ import annotations

from shoal.admit import Admission
from shoal.engine.tally import Tally
from shoal.model import Failure, Refused, Response, Task
from shoal.text import shown_url

_SHOWN = 300  # characters of a URL in a detail


class Redirects:
    def __init__(self, most: int, admission: Admission, tally: Tally) -> None:
        self._most = most
        self._admission = admission
        self._tally = tally

    def follow(self, task: Task, response: Response, *, kept: bool, anywhere: bool = False) -> Task | Failure:
        """The task at the target. `kept`: the cookies of the answer are in the store. `anywhere`: the scope
        of the crawl does not apply."""
        location = response.headers["Location"]
        if len(task.hops) >= self._most:
            last = shown_url(location)[:_SHOWN]
            return Failure("redirect_loop", f"more than {self._most} redirects, the last to {last}")
        to = self._admission.moved(
            task, location, response.cookies, response.status, kept=kept, anywhere=anywhere
        )
        if isinstance(to, Refused):
            return Failure("policy", f"redirected to {to.url}: {to.reason}")
        if to.goes_round:
            detail = f"redirected in a circle: {to.url[:_SHOWN]} was asked for before, with the same cookies"
            return Failure("redirect_loop", detail)
        if len(to.cookies) < len(response.cookies):
            self._tally.cut("cookies", len(response.cookies) - len(to.cookies))
        return to

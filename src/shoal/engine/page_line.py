"""One line of the debug log for each page: what was answered, and what came of it.

200 GET /p/17 12 ms 3.2 kB → product: 1 item, 4 links (2 new)
"""

from __future__ import annotations

import logging

from shoal.admit.identity import origin
from shoal.events import event, log
from shoal.model import Dead, Done, Failure, Moved, Retry, Settlement, Task
from shoal.text import humanize, shown_url

_TOO_MANY = 2  # hosts, for a path alone to say which page it is
_URL = 200  # characters of it


class PageLines:
    """The lines of one job in this process."""

    def __init__(self, first: str) -> None:
        """`first`: the handler of pages that name none."""
        self._first = first
        self._hosts: set[str] = set()

    @property
    def wanted(self) -> bool:
        """Whether anybody reads them. Ask before anything is prepared for a line."""
        return log.isEnabledFor(logging.DEBUG)

    def tell(self, settlement: Settlement, links: int, *, last: bool) -> None:
        """`links`: requests that the handler yielded. `last`: there is no other attempt after this one."""
        task, failure = settlement.lease.task, _failure(settlement)
        status = settlement.status or (failure.status if failure is not None else None) or 0
        seconds = settlement.elapsed or (failure.elapsed if failure is not None else 0.0)
        parts = [str(status or (failure.kind if failure is not None else "-")), task.method, self._page(task)]
        if settlement.unsent and settlement.status:
            parts.append("(cached)")
        if seconds:
            parts.append(humanize.latency(seconds))
        if settlement.size:
            parts.append(humanize.size(settlement.size))
        ending = self._ending(settlement, links, last=last)
        event(
            "page_settled",
            f"{' '.join(parts)} → {ending}",
            job=task.job,
            url=task.url,
            handler=task.handler or self._first,
            status=status,
            seconds=round(seconds, 3),
            size=settlement.size,
            items=len(settlement.rows),
            rejected=len(settlement.rejected),
            links=links,
            new=len(settlement.found),
        )

    def _page(self, task: Task) -> str:
        """The path; as soon as there are pages of a second host, with the host."""
        if len(self._hosts) < _TOO_MANY:
            self._hosts.add(task.host)
        start = origin(task.url)
        if len(self._hosts) >= _TOO_MANY:
            start = start[: start.find("//") + 2]
        url = shown_url(task.url.removeprefix(start)) or "/"
        return url if len(url) <= _URL else f"{url[:_URL]}…"

    def _ending(self, settlement: Settlement, links: int, *, last: bool) -> str:
        task, verdict = settlement.lease.task, settlement.verdict
        match verdict:
            case Moved(to=to):
                return f"moved to {shown_url(to.url)}"
            case Dead(failure=failure):
                return f"dead: {_said(failure)}"
            case Retry(failure=failure) if last:
                return f"dead: {_said(failure)}"
            case Retry(failure=failure, after=after):
                return f"again in {humanize.duration(after)}: {_said(failure)}"
        counted = [humanize.plural(len(settlement.rows), "item")]
        if settlement.rejected:
            counted.append(f"{humanize.count(len(settlement.rejected))} rejected")
        if links:
            counted.append(f"{humanize.plural(links, 'link')} ({humanize.count(len(settlement.found))} new)")
        return f"{task.handler or self._first}: {', '.join(counted)}"


def _failure(settlement: Settlement) -> Failure | None:
    verdict = settlement.verdict
    return None if isinstance(verdict, Done | Moved) else verdict.failure


def _said(failure: Failure) -> str:
    return f"{failure.kind}, {failure.detail}" if failure.detail else failure.kind

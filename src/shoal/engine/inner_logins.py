"""Requests inside a handler that turn out to be logged out."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from shoal.engine.judging import Judgement
from shoal.engine.sessions import Visit
from shoal.fetch.transport import BodySink
from shoal.html.media import is_html
from shoal.model import Dead, Lease, Moved, Response, Retry, Task
from shoal.spider.inner import FetchFailed

_LOOKED_AT = 1 << 20  # bytes of an answer that may be a login page
_BACK = 0.5  # seconds before a page that was led to a login is tried again


class LoginGate(Protocol):
    """What requests inside a handler need of `Logins`."""

    async def enter(self, lease: Lease) -> object:
        """A Retry or Dead if the session is not logged in, and cannot be at once."""
        ...

    async def check(
        self, lease: Lease, visit: Visit, response: Response, judgement: Judgement
    ) -> Retry | Dead | Moved | None:
        """What becomes of a page that was fetched without being logged in; None: it was logged in."""
        ...


async def refuse_if_logged_out(
    logins: LoginGate,
    own: Lease,
    outer: Task,
    visit: Visit,
    answer: Response,
    judgement: Judgement,
    sink: BodySink | None,
) -> None:
    """Raises FetchFailed if the session has ended: `outer`, the handler's page, then waits for the next login."""
    if sink is not None and not answer.body and _is_html(answer):
        answer = replace(
            answer, body=sink.beginning(_LOOKED_AT)
        )  # perhaps a login page in the place of a file
    # With the past of the handler's page, which says how often it was logged out.
    task = replace(own.task, history=outer.history, attempt=outer.attempt)
    lost = await logins.check(replace(own, task=task), visit, answer, judgement)
    if lost is not None:
        raise _logged_out(own.task, lost)


def _is_html(answer: Response) -> bool:
    media = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return is_html(media, b"")


def _logged_out(task: Task, lost: Retry | Dead | Moved) -> FetchFailed:
    if isinstance(lost, Dead):
        return FetchFailed(task.url, "login_failed", lost.failure.detail)
    failure, after = (lost.failure, lost.after) if isinstance(lost, Retry) else (lost.to.history[-1], _BACK)
    return FetchFailed(task.url, failure.kind, failure.detail, after=after, counts=False)

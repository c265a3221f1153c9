"""Logs sessions in, and notices when they are logged out.

    before a page ──▶ logged in? ──yes──▶ fetch ──▶ looks logged out? ──no──▶ the handler
                          │                               │ yes
                          ▼ no                            ▼
                    who has the lease?               the session is marked, once for everybody,
                     │            │                  and the page goes back to the queue
              nobody ▼            ▼ another
                 logs in      the page waits in the queue

The lease is part of the session's note, in the frontier's time. Its holder renews it; a process that dies loses it
after `_LEASE` seconds. A login makes a new generation of the session. A page that was fetched with an older one is just
fetched again.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from shoal.engine.inner_fetch import InnerFetcher
from shoal.engine.judging import Judgement
from shoal.engine.login_tasks import back_to_start, times_logged_out, weight, with_session
from shoal.engine.logout_signs import LogoutSigns, login_pages
from shoal.engine.sessions import Kept, SessionKeeper, Visit
from shoal.engine.tally import Tally
from shoal.errors import SessionKeyError, StoreError
from shoal.events import event
from shoal.fetch.proxy.sessions import Sessions
from shoal.frontier.clock import FrontierClock
from shoal.hosts.session_notes import LoginState, SessionNote
from shoal.model import Dead, Failure, Lease, Moved, Response, Retry, Task
from shoal.model.request import Request
from shoal.policy.outcomes import rule_for
from shoal.settings import Settings
from shoal.spider import debugging
from shoal.spider.handlers import HandlerTimeout, HandlerTimer
from shoal.spider.hook_calls import log_in
from shoal.spider.inner import FetchFailed
from shoal.spider.login import MAIN, Account, Login, LoginFailed, LoginSession
from shoal.spider.page import Page
from shoal.spider.spider import place_of_error
from shoal.text import error_line, one_line, shown_url, without_secrets

_LEASE = 10.0  # seconds after which a login whose process died may be tried by another
_TRIES = 3  # logins in a row that fail, before the session is given up …
# … of those that may work later, and of a session whose pages were good before: perhaps it is the pages that look
# logged out. With the pauses between them, some minutes.
_PASSING = 10
_IN_PLACE = (
    5.0  # seconds that a page waits for another to log its session in, before it goes back to the queue
)
_LOOK = 0.25  # seconds between two looks meanwhile
_WAIT = 1.0  # seconds before a page in the queue looks again
_PATIENCE = 10  # times that a page looks logged out, after a login each, before it is given up
_RENEWALS = 20  # of a session, after which …
_APART = 10.0  # … there are so many seconds between two: a page may look logged out to those who are not
_REASON = 300  # characters


class Entry(Struct, frozen=True):
    """A page may be fetched: with this lease, which names its session."""

    lease: Lease


Refusal = Retry | Dead | None  # None: the task goes back untouched


class Trouble(Struct, frozen=True):
    """Why a login failed."""

    reason: str
    passes: bool = False  # the host does not answer, or is busy


class Logins:
    """The logins of one job in one process."""

    def __init__(
        self,
        login: Login,
        accounts: Mapping[str, Account],
        settings: Settings,
        *,
        keeper: SessionKeeper,
        sessions: Sessions,
        inner: InnerFetcher,
        tally: Tally,
        clock: FrontierClock,
        rng: random.Random,
    ) -> None:
        self._login = login
        self._settings = settings
        self._keeper = keeper
        self._sessions = sessions
        self._inner = inner
        self._tally = tally
        self._clock = clock
        self._rng = rng
        self._accounts = accounts  # by name; none: every session logs in the same way
        self._signs = LogoutSigns(login, clock.time)
        self._opened = clock.now()

    # -- before a page

    async def enter(self, lease: Lease) -> Entry | Refusal:
        task = lease.task
        if task.session is None and self._accounts:
            return await self._any_account(lease)
        name = MAIN if task.session is None else task.session
        if not self._logs_in(name):
            return Entry(lease)
        ready = await self._ready(lease, name)
        if isinstance(ready, str):
            return Dead(self._failure(task, "login_failed", ready))
        return ready

    def is_for(self, task: Task) -> bool:
        """Whether the page is asked for by a session that logs in."""
        return task.session is None or self._logs_in(task.session)

    def _logs_in(self, name: str | None) -> bool:
        return bool(name) and (not self._accounts or name in self._accounts)

    async def _any_account(self, lease: Lease) -> Entry | Refusal:
        """The page goes to one of the accounts, the same one each time, unless that one cannot log in."""
        reasons = []
        for name in sorted(self._accounts, key=lambda name: weight(lease.task, name)):
            ready = await self._ready(lease, name)
            if not isinstance(ready, str):
                return ready
            reasons.append(ready)
        return Dead(self._failure(lease.task, "login_failed", "; ".join(reasons)))

    async def _ready(self, lease: Lease, name: str) -> Entry | Retry | str | None:
        """A text says why the session cannot log in."""
        kept = await self._awaited(lease, name)
        login, now = kept.note.login, self._clock.now()
        if login.at and not kept.note.ended and kept.note.generation:
            return Entry(with_session(lease, name))
        if self._given_up(login):
            tries = login.failures + login.troubles
            return f"session {name!r} could not log in {tries} times: {login.reason}"
        if login.until > now:
            return self._wait(lease.task, f"session {name!r} is logging in", _WAIT)
        if (tries := login.failures + login.troubles) and (
            rest := login.failed_at + self._pause(tries) - now
        ) > 0:
            return self._wait(lease.task, f"session {name!r} logs in again: {login.reason}", rest)
        if not await self._log_in(lease, name, kept):
            return self._wait(lease.task, f"session {name!r} could not log in", _WAIT)
        return None  # this page's turn at the host was used by the login

    async def _awaited(self, lease: Lease, name: str) -> Kept:
        """The session; while another logs it in, that is waited for. The page keeps its place at its host for a while:
        otherwise the whole queue would come and go meanwhile."""
        kept = await self._keeper.session(name, lease.task)
        until = self._clock.monotonic() + _IN_PLACE
        while kept.note.login.until > self._clock.now() and self._clock.monotonic() < until:
            await asyncio.sleep(_LOOK)
            await self._keeper.look_again(kept, _LOOK)
        return kept

    def _given_up(self, login: LoginState) -> bool:
        """A process that was started since gives the session another chance: perhaps the password was put right."""
        return _is_enough(login) and login.failed_at >= self._opened

    def _pause(self, failures: int) -> float:
        return min(self._settings.retry_base * 2.0 ** min(failures, 20) / 2, self._settings.retry_cap)

    def _wait(self, task: Task, detail: str, seconds: float) -> Retry:
        failure = Failure("session_wait", one_line(detail), at=self._clock.time())
        return Retry(seconds * self._rng.uniform(1.0, 1.5), failure, counts=False)

    # -- logging in

    async def _log_in(self, lease: Lease, name: str, kept: Kept) -> bool:
        """Whether it is logged in, or another process has begun to do it."""
        holder = os.urandom(8).hex()
        if not await self._keeper.change(kept, lambda note: self._taken(note, holder)):
            return True
        job, account = lease.task.job, self._accounts.get(name)
        session = LoginSession(name, account, self._sender(lease), lambda: self._cookies(name))
        self._keeper.begin_login(kept)
        try:
            trouble = await self._try(session, kept, holder)
            if trouble is None:
                made = (lease.task.url, session.headers, login_pages(session.pages))
                if await self._keeper.logged_in(kept, holder, *made):
                    event("session_logged_in", job=job, session=name)
                    self._tally.logged_in()
                return True  # if it is not: it took too long, and another process has taken over
        except asyncio.CancelledError:  # this process ends, or has lost the page: another may try at once
            with suppress(StoreError):
                await self._keeper.change(kept, _if_held(holder, _released))
            raise
        finally:
            self._keeper.end_login(kept)
        await self._failed(job, name, kept, holder, trouble)
        return False

    def _taken(self, note: SessionNote, holder: str) -> SessionNote | None:
        login, now = note.login, self._clock.now()
        if login.until > now or (login.at and not note.ended):
            return None
        if _is_enough(login):
            login = replace(login, failures=0, troubles=0)
        taken = replace(login, at=0.0, holder=holder, until=now + _LEASE)
        return replace(note, login=taken)

    async def _try(self, session: LoginSession, kept: Kept, holder: str) -> Trouble | None:
        """Why it failed; None: it did not."""
        renewing = asyncio.create_task(self._renew(kept, holder, asyncio.current_task()))
        monotonic = self._clock.monotonic
        most = self._settings.handler_timeout
        timer = HandlerTimer(monotonic() + most, monotonic)
        try:
            async with asyncio.timeout(None) as limit:
                timer.interrupt(limit)
                said = await log_in(self._login, session)
                session.check_headers()
                if said is False:
                    return Trouble("the login function returned False")
                if session.last is not None and await self._signs.on_page(session.last):
                    return Trouble("the page after the login still looks logged out")
                return None
        except TimeoutError:
            return Trouble(f"it took longer than handler_timeout = {most:g} s", passes=True)
        except HandlerTimeout as error:  # by the watchdog
            return Trouble(
                f"it computed for longer than handler_timeout = {most:g} s ({place_of_error(error)})"
            )
        except (StoreError, SessionKeyError):
            raise
        except FetchFailed as error:
            passes = rule_for(error.kind).action == "retry"
            # A site may take user and password in the query.
            told = f"{shown_url(error.url).partition('?')[0]}: {error.detail}"
            return Trouble(_reason(session, told), passes=passes)
        except LoginFailed as error:
            return Trouble(_reason(session, str(error)))
        except (Exception, SystemExit) as error:
            debugging.check_quit()
            where = place_of_error(error)
            return Trouble(_reason(session, error_line(error) + (f" ({where})" if where else "")))
        finally:
            timer.stop()
            renewing.cancel()

    async def _renew(self, kept: Kept, holder: str, working: asyncio.Task[object] | None) -> None:
        while True:
            await asyncio.sleep(_LEASE / 3)
            if not await self._keeper.change(kept, _if_held(holder, self._renewed)):
                if working is not None:
                    working.cancel()
                return

    def _renewed(self, login: LoginState) -> LoginState:
        return replace(login, until=self._clock.now() + _LEASE)

    async def _failed(self, job: str, name: str, kept: Kept, holder: str, trouble: Trouble) -> None:
        now = self._clock.now()

        def failed(login: LoginState) -> LoginState:
            login = replace(_released(login), failed_at=now, reason=trouble.reason)
            if trouble.passes:
                return replace(login, troubles=login.troubles + 1)
            return replace(login, failures=login.failures + 1)

        await self._keeper.change(kept, _if_held(holder, failed))
        self._tell_failure(job, name, kept.note.login)

    def _tell_failure(self, job: str, name: str, login: LoginState) -> None:
        self._tally.login_failed()
        failures, reason = login.failures + login.troubles, login.reason
        if _is_enough(login):
            event("session_given_up", job=job, session=name, failures=failures, reason=reason)
        else:
            event("session_login_failed", job=job, session=name, failures=failures, reason=reason)

    def _sender(self, lease: Lease) -> Callable[[Request], Awaitable[Page]]:
        async def send(request: Request) -> Page:
            try:
                return await self._inner.fetch(request, lease=lease)
            except FetchFailed as failed:
                if failed.kind == "login_wall" and failed.page is not None:
                    return failed.page  # a login page is what is wanted
                raise

        return send

    def _cookies(self, name: str) -> dict[str, str]:
        session = self._sessions.live(name)
        return {} if session is None else {cookie.name: cookie.value for cookie in session.jar}

    # -- after a page

    async def check(
        self, lease: Lease, visit: Visit, response: Response, judgement: Judgement
    ) -> Retry | Dead | Moved | None:
        """What becomes of a page that was fetched without being logged in. None: it was logged in."""
        task, kept = lease.task, visit.kept
        if kept is None or not self._logs_in(kept.name):
            return None
        try:
            out = await self._signs.in_answer(task, response, judgement, kept.note.login)
        except Exception as error:
            detail = f"the logged_out function of @spider.login raised {error_line(error)}"
            return Dead(self._failure(task, "handler", detail))
        if not out:
            if judgement.verdict is None and judgement.kind != "redirect" and not kept.note.login.good:
                await self._keeper.change(kept, _good(visit.generation))
            return None
        return await self._logged_out(lease, visit, kept)

    async def _logged_out(self, lease: Lease, visit: Visit, kept: Kept) -> Retry | Dead | Moved:
        task, name = lease.task, kept.name
        assert name is not None
        if not await self._keeper.change(kept, self._expired(visit.generation, task.origin)):
            rest = self._rest(kept.note.login) if kept.note.generation == visit.generation else 0.0
            again = self._wait(task, f"session {name!r} was renewed, or is about to be", max(rest, _WAIT / 2))
            return back_to_start(task, again)
        event("session_logged_out", job=task.job, session=name, url=task.url)
        login = kept.note.login
        if login.failures:
            self._tell_failure(task.job, name, login)
        met = times_logged_out(task) + 1
        failure = self._failure(
            task, "logged_out", f"session {name!r} was logged out, for the {met}. time here"
        )
        if met >= _PATIENCE:
            return Dead(failure)
        return back_to_start(task, Retry(self._rng.uniform(0.0, _WAIT), failure, counts=False))

    def _expired(self, generation: int, url: str) -> Callable[[SessionNote], SessionNote | None]:
        def change(note: SessionNote) -> SessionNote | None:
            login = note.login
            if note.generation != generation or not login.at:
                return None  # renewed, or about to be
            if self._rest(login) > 0:
                return None
            login = replace(login, at=0.0, renewals=login.renewals + 1)
            if not login.good:
                page = shown_url(url).partition("?")[0][:_REASON]
                reason = f"{page} looked logged out right after the login"
                login = replace(
                    login, failures=login.failures + 1, failed_at=self._clock.now(), reason=reason
                )
            return replace(note, login=login)

        return change

    def _rest(self, login: LoginState) -> float:
        """Seconds before a session that is logged in may be renewed."""
        return login.at + _APART - self._clock.now() if login.at and login.renewals >= _RENEWALS else 0.0

    def _failure(self, task: Task, kind: str, detail: str) -> Failure:
        return Failure(kind, one_line(detail), at=self._clock.time(), attempt=task.attempt)


def _if_held(
    holder: str, change: Callable[[LoginState], LoginState]
) -> Callable[[SessionNote], SessionNote | None]:
    return lambda note: replace(note, login=change(note.login)) if note.login.holder == holder else None


def _is_enough(login: LoginState) -> bool:
    return login.failures >= (_PASSING if login.proven else _TRIES) or login.troubles >= _PASSING


def _released(login: LoginState) -> LoginState:
    return replace(login, holder="", until=0.0)


def _good(generation: int) -> Callable[[SessionNote], SessionNote | None]:
    """Notes that a page looked logged in. That counts also if another page of the same login did not, meanwhile."""

    def change(note: SessionNote) -> SessionNote | None:
        if note.generation != generation or note.login.good:
            return None
        login = replace(note.login, good=True, proven=True, failures=0, troubles=0, reason="")
        return replace(note, login=login)

    return change


def _reason(session: LoginSession, said: str) -> str:
    return session.without_secrets(without_secrets(one_line(said)))[:_REASON]

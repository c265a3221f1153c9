"""Keeps the cookies of sessions and sites in the store, so that all processes have them, also after a resume.

    enter ──▶ reads the note if it may have changed ──▶ the jar to fetch with
    leave ──▶ writes the cookies that the page has set, before the page is settled

A page that was found by the page that set a cookie is sent with that cookie, whichever process fetches it: tasks carry
the time of the last change (`FetchOptions.cookies_at`), and a note that was read before that time is read again. Any
other change is seen after `_STALE` seconds at the latest. A note without a site's name says that there are any: a crawl
without cookies only looks for that one, now and then, and writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.engine.tally import Tally
from shoal.fetch.cookies import LastingJar, with_changes
from shoal.fetch.proxy.proxy import Proxy
from shoal.fetch.proxy.sessions import Session, Sessions
from shoal.fetch.transport import FetchRequest
from shoal.frontier.clock import FrontierClock
from shoal.hosts.session_notes import (
    SessionNote,
    SessionNotes,
    bounded,
    session_note_key,
    site_note_key,
)
from shoal.model import Lease, Settlement, Task
from shoal.settings import Settings

_STALE = 30.0  # seconds after which a note is read again
_MARGIN = 1.0  # seconds by which the clocks of two processes may differ
_KEPT = 2_000  # notes in memory; beyond, the least recently used is dropped


class Kept:
    """A note as it was last read or written."""

    __slots__ = ("jar", "key", "lock", "name", "note", "read_at", "version")

    def __init__(self, key: str, name: str | None) -> None:
        self.key = key
        self.name = name  # of the session; None: the cookies of a site
        self.jar = LastingJar()  # of a site
        self.note = SessionNote()
        self.version = 0
        self.read_at = -inf  # the frontier's time
        self.lock = asyncio.Lock()


class Visit(Struct, frozen=True):
    """What a page is fetched with."""

    kept: Kept | None = None
    jar: LastingJar | None = None  # of a site; None: that of its session, or one that is not stored
    generation: int = 0  # of the session

    def keeps(self, request: FetchRequest) -> bool:
        """Whether the cookies that the answer set are in the store. Those of browser pages without a session are
        not."""
        return self.kept is not None and (self.jar is None or request.jar is self.jar)


_NOTHING = Visit()


class SessionKeeper:
    def __init__(
        self,
        job: str,
        settings: Settings,
        notes: SessionNotes,
        sessions: Sessions,
        proxies: Mapping[str, Proxy],
        tally: Tally,
        clock: FrontierClock,
    ) -> None:
        self._job = job
        self._settings = settings
        self._notes = notes
        self._sessions = sessions
        self._proxies = proxies
        self._tally = tally
        self._clock = clock
        self._some = False  # whether the job has notes of sites
        self._looked_at = -inf  # … when that was last asked for, in the frontier's time
        self._looking = asyncio.Lock()
        self._known: dict[str, Kept] = {}  # by key, the least recently used first
        self._of_sites = site_note_key(job, "")  # how the keys of sites begin

    async def enter(self, task: Task) -> Visit:
        """Called before a page is fetched."""
        name = task.session
        if name:
            kept = self._kept(session_note_key(self._job, name), name)
            await self._refresh(kept, task)
            return Visit(kept, generation=kept.note.generation)
        if not self._settings.cookies:
            return _NOTHING
        kept = self._kept(self._of_sites + _site(task.host))
        if self._some or task.options.cookies_at or task.history or await self._looks_for_some():
            await self._refresh(kept, task)
        return Visit(kept, kept.jar)

    async def leave(self, lease: Lease, visit: Visit) -> Lease:
        """Called when a page was fetched, before anything that it found is stored. The tasks that it found are to be
        admitted with this lease."""
        kept = visit.kept
        if kept is None:
            return lease
        await self._save(kept)
        changed = kept.note.changed_at + _MARGIN
        options = lease.task.options
        if changed <= options.cookies_at or changed <= self._clock.now() - _STALE:
            return lease
        return replace(lease, task=replace(lease.task, options=replace(options, cookies_at=changed)))

    async def settle(self, settlement: Settlement, visit: Visit) -> Settlement:
        """Called after the handler, which may have changed cookies too: in a browser, or by requests of its own."""
        lease = await self.leave(settlement.lease, visit)
        if lease is settlement.lease:
            return settlement
        at = lease.task.options.cookies_at
        found = [replace(task, options=replace(task.options, cookies_at=at)) for task in settlement.found]
        return replace(settlement, lease=lease, found=tuple(found))

    def forget(self) -> None:
        """The store may have gone back: everything is read again, and what it has lost is written again."""
        self._some, self._looked_at = False, -inf
        for kept in self._known.values():
            kept.read_at = -inf
            kept.note, kept.version = SessionNote(), 0
            kept.jar.forget_stored()
            session = self._sessions.live(kept.name) if kept.name is not None else None
            if session is not None:
                session.jar.forget_stored()

    # -- logins

    async def session(self, name: str, task: Task) -> Kept:
        """What is known about a session."""
        kept = self._kept(session_note_key(self._job, name), name)
        await self._refresh(kept, task)
        return kept

    async def look_again(self, kept: Kept, age: float) -> None:
        """Reads the note if it was last read so many seconds ago."""
        wanted = self._clock.now() - age
        async with kept.lock:
            if kept.read_at < wanted:
                await self._read(kept)

    async def change(self, kept: Kept, change: Callable[[SessionNote], SessionNote | None]) -> bool:
        """`change` gets the note and returns the new one, or None to leave it as it is. Whether it was changed."""
        async with kept.lock:
            while (note := change(kept.note)) is not None:
                asked = self._clock.now()
                if await self._notes.write(kept.key, note, kept.version):
                    kept.note, kept.version, kept.read_at = note, kept.version + 1, asked
                    return True
                await self._read(kept)
            return False

    def begin_login(self, kept: Kept) -> None:
        """From now on, requests of the session are those of its login. Its jar is empty, and its proxy the same."""
        name, note, sessions = kept.name or "", kept.note, self._sessions
        sessions.logging_in.add(name)
        sessions.drop(name)
        sessions.learn(name, note.generation, note.left)
        proxy = self._proxies.get(note.proxy)
        if note.generation and not note.ended and (proxy is not None or not note.proxy):
            sessions.adopt(name, proxy, self._clock.now(), note.origin, note.generation + 1)

    def end_login(self, kept: Kept) -> None:
        name = kept.name or ""
        self._sessions.logging_in.discard(name)
        live = self._sessions.live(name)
        if live is not None and live.generation != kept.note.generation:
            self._sessions.drop(name)  # it failed

    async def logged_in(
        self, kept: Kept, holder: str, url: str, headers: Mapping[str, str], pages: tuple[str, ...]
    ) -> bool:
        """Stores the session that has logged in, for everybody. False: another process has taken over."""
        name, sessions = kept.name or "", self._sessions
        live = sessions.live(name) or sessions.begin(name, None, self._clock.now(), url)

        def change(note: SessionNote) -> SessionNote | None:
            login, now = note.login, self._clock.now()
            if login.holder != holder or login.until <= now:
                return None
            done = replace(login, at=now, good=False, holder="", until=0.0, urls=pages)
            whole = self._whole(live, note)
            return bounded(replace(whole, headers=dict(headers), login=done))[0]

        if not await self.change(kept, change):
            return False
        live.add_headers(headers)
        live.jar.sync(kept.note.cookies, whole=True)
        live.counted = kept.note.requests
        return True

    def _whole(self, live: Session, note: SessionNote) -> SessionNote:
        """The note of a session that was begun here. It is not logged in."""
        return SessionNote(
            list(live.jar.values().values()),
            self._clock.now(),
            generation=live.generation,
            proxy=live.proxy.name if live.proxy is not None else "",
            left=self._sessions.left(live.name) or "",
            began=live.began,
            requests=live.requests,
            origin=live.origin,
            login=replace(note.login, at=0.0, good=False),
        )

    def _kept(self, key: str, name: str | None = None) -> Kept:
        kept = self._known.pop(key, None)
        if kept is None:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            kept = Kept(key, name)
        self._known[key] = kept  # last in line
        return kept

    # -- reading

    async def _looks_for_some(self) -> bool:
        """Whether any site has set a cookie. As long as none has, no note of a site is read."""
        if self._looked_at >= self._clock.now() - _STALE:
            return self._some
        async with self._looking:
            now = self._clock.now()
            if not self._some and self._looked_at < now - _STALE:
                self._some, self._looked_at = await self._notes.has_sites(self._job), now
            return self._some

    async def _refresh(self, kept: Kept, task: Task) -> None:
        # A page that comes again may have been refused for the lack of a cookie.
        wanted = self._clock.now() - (0.0 if task.history else _STALE)
        wanted = max(wanted, task.options.cookies_at)
        if kept.read_at < wanted:
            async with kept.lock:
                if kept.read_at < wanted:
                    await self._read(kept, names_proxy=task.options.proxy is not None)

    async def _read(self, kept: Kept, *, names_proxy: bool = False) -> None:
        asked = self._clock.now()
        note, version = await self._notes.read(kept.key)
        kept.read_at = asked
        if version != kept.version or not version:
            kept.note, kept.version = note, version
            self._take(kept, names_proxy=names_proxy)

    def _take(self, kept: Kept, *, names_proxy: bool) -> None:
        """Brings what this process knows up to date with the note. `names_proxy`: the request says where to go, so it
        does not matter that the session's proxy is not known here."""
        note, name = kept.note, kept.name
        if name is None:
            kept.jar.sync(note.cookies)
            return
        sessions = self._sessions
        if name in sessions.logging_in:
            return
        sessions.learn(name, note.generation, note.left)
        live = sessions.live(name)
        if live is not None and live.generation > note.generation:
            return  # begun here, and not stored yet
        is_lost = note.proxy and note.proxy not in self._proxies and not names_proxy
        if note.ended or is_lost:
            sessions.drop(name)
            return
        if not note.generation:
            return
        proxy = self._proxies.get(note.proxy)
        if live is None or live.generation < note.generation:
            began = note.began, note.origin, note.generation
            live = sessions.adopt(name, proxy, *began, headers=note.headers)
        live.proxy = proxy
        live.requests += note.requests - live.counted
        live.counted = note.requests
        live.jar.sync(note.cookies)

    # -- writing

    async def _save(self, kept: Kept) -> None:
        if kept.name is None and not kept.jar.touched:
            return  # as nearly always: without the lock
        async with kept.lock:
            while (note := self._changed(kept)) is not None:
                note, cut = bounded(note)
                if kept.name is None and not self._some:
                    await self._notes.mark_sites(self._job)
                    self._some = True
                asked = self._clock.now()
                if await self._notes.write(kept.key, note, kept.version):
                    kept.note, kept.version, kept.read_at = note, kept.version + 1, asked
                    self._written(kept, cut)
                else:
                    await self._read(kept)

    def _changed(self, kept: Kept) -> SessionNote | None:
        """The note as it should be; None: as it is."""
        if kept.name is None:
            return self._with_cookies(kept.note, kept.jar)
        live, note = self._sessions.live(kept.name), kept.note
        if kept.name in self._sessions.logging_in:
            return None
        if live is None:
            ended = self._sessions.ended(kept.name)
            if note.ended or not note.generation or ended < note.generation:
                return None
            return SessionNote(
                generation=note.generation,
                ended=True,
                left=self._sessions.left(kept.name) or "",
                changed_at=self._clock.now(),
                login=replace(note.login, at=0.0, good=False),
            )
        if live.generation > note.generation:
            return self._whole(live, note)
        changed = self._with_cookies(note, live.jar)
        proxy = live.proxy.name if live.proxy is not None else ""
        if proxy != note.proxy:  # a request has chosen another
            changed = replace(changed or note, proxy=proxy)
        if self._settings.session_requests and live.requests > live.counted:
            changed = replace(changed or note, requests=live.requests)
        return changed

    def _with_cookies(self, note: SessionNote, jar: LastingJar) -> SessionNote | None:
        if not jar.touched:
            return None
        changes = jar.changes()
        if not changes:
            jar.touched = False
            return None
        cookies = with_changes(note.cookies, changes)
        return replace(note, cookies=cookies, changed_at=self._clock.now())

    def _written(self, kept: Kept, cut: int) -> None:
        if cut:
            self._tally.cut("cookies", cut)
        session = self._sessions.live(kept.name) if kept.name is not None else None
        if session is not None and session.generation == kept.note.generation:
            session.counted = kept.note.requests
        jar = kept.jar if kept.name is None else session.jar if session is not None else None
        if jar is not None and (session is None or session.generation == kept.note.generation):
            jar.sync(kept.note.cookies, whole=cut > 0)


def _site(host: str) -> str:
    """What shares cookies with a host: its registrable domain, or a name or address that has none."""
    domain = registrable_domain(host)
    if domain:
        return domain
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]

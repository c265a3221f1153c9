"""Keeps the cookies of sessions and sites in the store, so that all processes have them, also after a resume.

    enter ──▶ reads the note if it may have changed ──▶ the jar to fetch with
    leave ──▶ writes the cookies that the page has set, before the page is settled

A page that was found by the page that set a cookie is sent with that cookie, whichever process fetches it: tasks carry
the time of the last change (`FetchOptions.cookies_at`), and a note that was read before that time is read again. Any
other change is seen after `_STALE` seconds at the latest. So a crawl without cookies reads one note a site, and writes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit.identity import registrable_domain
from shoal.engine.tally import Tally
from shoal.fetch.cookies import LastingJar, with_changes
from shoal.fetch.proxy.pools import Proxy
from shoal.fetch.proxy.sessions import Sessions
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
        self._known: dict[str, Kept] = {}  # by key, the least recently used first

    async def enter(self, task: Task) -> Visit:
        """Called before a page is fetched."""
        name = task.session
        if name:
            kept = self._kept(session_note_key(self._job, name), name)
            await self._refresh(kept, task)
            return Visit(kept)
        if not self._settings.cookies:
            return _NOTHING
        kept = self._kept(site_note_key(self._job, _site(task.host)))
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
        for kept in self._known.values():
            kept.read_at = -inf
            kept.note, kept.version = SessionNote(), 0
            kept.jar.forget_stored()
            session = self._sessions.live(kept.name) if kept.name is not None else None
            if session is not None:
                session.jar.forget_stored()

    def _kept(self, key: str, name: str | None = None) -> Kept:
        kept = self._known.pop(key, None)
        if kept is None:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            kept = Kept(key, name)
        self._known[key] = kept  # last in line
        return kept

    # -- reading

    async def _refresh(self, kept: Kept, task: Task) -> None:
        # A page that comes again may have been refused for the lack of a cookie.
        wanted = self._clock.now() - (0.0 if task.history else _STALE)
        wanted = max(wanted, task.options.cookies_at)
        if kept.read_at < wanted:
            async with kept.lock:
                if kept.read_at < wanted:
                    await self._read(kept)

    async def _read(self, kept: Kept) -> None:
        asked = self._clock.now()
        note, version = await self._notes.read(kept.key)
        kept.read_at = asked
        if version != kept.version or not version:
            kept.note, kept.version = note, version
            self._take(kept)

    def _take(self, kept: Kept) -> None:
        """Brings what this process knows up to date with the note."""
        note, name = kept.note, kept.name
        if name is None:
            kept.jar.sync(note.cookies)
            return
        sessions = self._sessions
        sessions.learn(name, note.generation, note.left)
        live = sessions.live(name)
        if live is not None and live.generation > note.generation:
            return  # begun here, and not stored yet
        if note.ended or (note.proxy and note.proxy not in self._proxies):
            sessions.drop(name)
            return
        if not note.generation:
            return
        proxy = self._proxies.get(note.proxy)
        if live is None or live.generation < note.generation:
            live = sessions.adopt(name, proxy, note.began, note.origin, note.generation)
        live.proxy = proxy
        live.requests += note.requests - live.counted
        live.counted = note.requests
        live.jar.sync(note.cookies)

    # -- writing

    async def _save(self, kept: Kept) -> None:
        async with kept.lock:
            while (note := self._changed(kept)) is not None:
                note, cut = bounded(note)
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
        left = self._sessions.left(kept.name) or ""
        if live is None:
            ended = self._sessions.ended(kept.name)
            if note.ended or not note.generation or ended < note.generation:
                return None
            return SessionNote(
                generation=note.generation, ended=True, left=left, changed_at=self._clock.now()
            )
        if live.generation > note.generation:
            cookies = list(live.jar.values().values())
            return SessionNote(
                cookies,
                self._clock.now(),
                generation=live.generation,
                proxy=live.proxy.name if live.proxy is not None else "",
                left=left,
                began=live.began,
                requests=live.requests,
                origin=live.origin,
            )
        changed = self._with_cookies(note, live.jar)
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

"""Cookies in the store: as good as those in memory, merged with those of other processes, and read when they may have
changed, but not otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from shoal.engine.sessions import SessionKeeper, Visit
from shoal.engine.tally import Tally
from shoal.errors import SessionKeyError
from shoal.fetch.cookies import LastingJar
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.sessions import Sessions
from shoal.frontier import open_frontier
from shoal.frontier.clock import FrontierClock
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Note
from shoal.hosts.session_notes import Seal, SessionNotes, session_note_key, site_note_key
from shoal.inspect.retention import forget_notes
from shoal.limits import SESSION_NOTE
from shoal.model import Failure, FetchOptions, Lease, Task
from shoal.settings import Settings
from shoal.testing import ManualClock
from shoal.testing.servers import ValkeyServer

PAGE = URL("https://www.shop.example/a/b?c=d")
NEVER = "Expires=Fri, 31 Dec 9999 23:59:59 GMT"


def jar_with(*lines: str, url: URL = PAGE) -> LastingJar:
    jar = LastingJar()
    jar.set(list(lines), url)
    return jar


def copy_of(jar: LastingJar) -> LastingJar:
    other = LastingJar()
    other.sync(jar.values().values())
    return other


@pytest.mark.parametrize(
    "line",
    [
        "id=1",
        "id=1; Path=/",
        "id=1; Path=/a/",
        "id=1; Domain=shop.example; Path=/",
        "id=1; Domain=.www.shop.example",
        'id="a b"; Path=/; HttpOnly; SameSite=None; Secure',
        "id=; Path=/",
        "i[d]=x=y; Max-Age=1000",
        "id=1; Max-Age=99999999999999",
        f"id=1; {NEVER}",
        "__Host-id=ü; Path=/; Secure",
    ],
)
async def test_a_stored_cookie_is_sent_as_the_one_that_was_received(line: str) -> None:
    jar = jar_with(line)
    other = copy_of(jar)
    assert other.values() == jar.values()
    for url in (
        *("https://www.shop.example/a/b", "https://www.shop.example/a/", "http://www.shop.example/a/x"),
        *("https://shop.example/a/b", "https://x.www.shop.example/a/b", "https://other.example/a/b"),
    ):
        assert other.cookies_for(URL(url)) == jar.cookies_for(URL(url)), url


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000/", "http://[::1]:8000/", "http://localhost/"])
async def test_hosts_without_a_domain_have_lasting_cookies(address: str) -> None:
    other = copy_of(jar_with("id=1; Path=/", url=URL(address)))
    assert [cookie.name for cookie in other.cookies_for(URL(address))] == ["id"]


async def test_the_same_cookie_with_a_slightly_later_end_is_no_change() -> None:
    jar = copy_of(jar_with("id=1; Max-Age=1000"))
    jar.set(["id=1; Max-Age=1005"], PAGE)
    assert jar.changes() == {}
    jar.set(["id=1; Max-Age=2000"], PAGE)
    assert len(jar.changes()) == 1
    jar.set(["id=2; Max-Age=1005"], PAGE)
    assert len(jar.changes()) == 1
    jar.set(["id=2; Max-Age=0"], PAGE)
    assert list(jar.changes().values()) == [None]


async def test_what_has_expired_in_the_store_is_not_taken() -> None:
    [cookie] = jar_with("id=1; Max-Age=1000").values().values()
    jar = LastingJar()
    jar.sync([type(cookie)(**{**_fields(cookie), "expires": time() - 1})])
    assert len(jar) == 0


def _fields(cookie: object) -> dict[str, object]:
    return {name: getattr(cookie, name) for name in cookie.__struct_fields__}  # type: ignore[attr-defined]


# -- processes


class Process:
    """What one process of a job has."""

    def __init__(self, frontier: Frontier, clock: ManualClock, **settings: object) -> None:
        self.frontier = frontier
        self.settings = Settings(**settings)  # type: ignore[arg-type]
        self.sessions = Sessions(self.settings)
        self.tally = Tally()
        self.proxies = {
            proxy.name: proxy for pool in load_pools(self.settings, {}).values() for proxy in pool
        }
        self.clock = FrontierClock(clock)
        self.keeper = self._keeper()

    def _keeper(self) -> SessionKeeper:
        notes = SessionNotes(self.frontier, self.settings.session_key)
        return SessionKeeper("job", self.settings, notes, self.sessions, self.proxies, self.tally, self.clock)

    async def page(self, task: Task, *lines: str, proxy: str = "") -> Lease:
        """Fetches a page, which sets cookies."""
        visit = await self.keeper.enter(task)
        self._jar(task, visit, proxy).set(list(lines), URL(task.url))
        return await self.keeper.leave(Lease(1, task, 0.0, 0), visit)

    async def sees(self, task: Task) -> str:
        visit = await self.keeper.enter(task)
        sent = self._jar(task, visit).cookies_for(URL(task.url))
        return "; ".join(sorted(f"{cookie.name}={cookie.value}" for cookie in sent))

    def _jar(self, task: Task, visit: Visit, proxy: str = "") -> LastingJar:
        if visit.jar is not None:
            return visit.jar
        assert task.session is not None
        session = self.sessions.current(task.session, self.clock.now())
        if session is None:
            session = self.sessions.begin(task.session, self.proxies.get(proxy), self.clock.now(), task.url)
        session.requests += 1
        return session.jar


def task(session: str | None = None, *, url: str = str(PAGE), at: float = 0.0, **more: object) -> Task:
    options = FetchOptions(session=session, cookies_at=at)
    return Task(url, host=url.split("/")[2], options=options, **more)  # type: ignore[arg-type]


def found_by(lease: Lease) -> float:
    return lease.task.options.cookies_at


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "valkey"])
async def homes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sequence[Frontier]]:
    """Two processes' connections to one store."""
    if request.param == "valkey":
        server: ValkeyServer = request.getfixturevalue("valkey")
        address = server.url
    else:
        address = str(tmp_path / "shoal.db")
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_frontier(address)) for _ in range(2)]


SESSIONS = pytest.mark.parametrize("session", [None, "anna"])


@SESSIONS
async def test_a_page_found_by_the_page_that_set_a_cookie_has_it_in_any_process(
    homes: Sequence[Frontier], clock: ManualClock, session: str | None
) -> None:
    one, two = (Process(home, clock) for home in homes)
    assert await two.sees(task(session)) == "", "it has read the note, and there is none"
    lease = await one.page(task(session), "id=1; Path=/")
    assert await two.sees(task(session)) == "", "it knows nothing of it yet, and need not"
    assert await two.sees(task(session, at=found_by(lease))) == "id=1"
    assert await Process(homes[0], clock).sees(task(session)) == "id=1", "after a resume"
    clock.advance(60)
    await one.page(task(session), "id=2; Path=/")
    clock.advance(31)
    assert await two.sees(task(session)) == "id=2", "sooner or later it looks again"


@SESSIONS
async def test_cookies_of_two_processes_are_merged(
    homes: Sequence[Frontier], clock: ManualClock, session: str | None
) -> None:
    one, two = (Process(home, clock) for home in homes)
    await one.page(task(session), "a=1; Path=/", "gone=1; Path=/")
    for process in (one, two):
        await process.sees(task(session, history=(Failure("timeout"),)))
    await one.page(task(session), "b=1; Path=/", "gone=; Max-Age=0; Path=/")
    lease = await two.page(task(session), "a=2; Path=/", "c=1; Path=/")
    wanted = "a=2; b=1; c=1"
    assert await two.sees(task(session)) == wanted
    assert await one.sees(task(session, at=found_by(lease))) == wanted


async def test_sessions_and_sites_have_nothing_in_common(
    homes: Sequence[Frontier], clock: ManualClock
) -> None:
    one = Process(homes[0], clock)
    await one.page(task("anna"), "id=anna; Path=/; Domain=shop.example")
    await one.page(task(None), "id=nobody; Path=/; Domain=shop.example")
    two = Process(homes[1], clock)
    assert await two.sees(task("bob")) == ""
    assert await two.sees(task("anna")) == "id=anna"
    assert await two.sees(task(None, url="https://api.shop.example/")) == "id=nobody"
    assert await two.sees(task(None, url="https://other.example/")) == ""


async def test_a_crawl_without_cookies_reads_once_and_writes_nothing_however_many_its_sites(
    homes: Sequence[Frontier], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = homes[0].note

    async def note(key: str) -> Note | None:
        asked.append(key)
        return await real(key)

    monkeypatch.setattr(homes[0], "note", note)
    process = Process(homes[0], clock)
    for number in range(100):
        page = task(url=f"https://shop{number}.example/")
        lease = await process.keeper.leave(Lease(1, page, 0.0, 0), await process.keeper.enter(page))
        assert lease.task == page, "no task gets larger"
    assert asked == [site_note_key("job", "")]
    assert await real(asked[0]) is None


async def test_the_same_cookies_again_are_not_written(homes: Sequence[Frontier], clock: ManualClock) -> None:
    process = Process(homes[0], clock)
    for _ in range(5):
        await process.page(task(), "id=1; Path=/; Max-Age=1000")
    note = await homes[0].note(site_note_key("job", "shop.example"))
    assert note is not None
    assert note.version == 1


@SESSIONS
async def test_a_note_is_bounded_and_what_is_cut_is_counted(
    homes: Sequence[Frontier], clock: ManualClock, session: str | None
) -> None:
    process = Process(homes[0], clock)
    for number in range(30):
        await process.page(task(session), f"id{number}={'x' * 4000}; Path=/")
    key = session_note_key("job", session) if session else site_note_key("job", "shop.example")
    note = await homes[0].note(key)
    assert note is not None
    assert len(note.value) < SESSION_NOTE + 200
    kept = SESSION_NOTE // 4_030
    assert process.tally.report().cut == {"cookies": 30 - kept}
    assert len((await Process(homes[1], clock).sees(task(session))).split("; ")) < kept + 1
    await process.page(task(session), f"id29={'x' * 4000}; Path=/")
    assert (await homes[0].note(key)) == note, "what was cut does not come back"


async def test_a_session_keeps_its_proxy_and_ends_for_everybody(
    homes: Sequence[Frontier], clock: ManualClock
) -> None:
    pools = {"proxies": {"dc": ["http://me:hunter2@one:1", "http://two:1"]}}
    one, two = (Process(home, clock, **pools) for home in homes)
    await one.page(task("anna"), "id=1; Path=/", proxy="dc/two:1")
    assert await two.sees(task("anna")) == "id=1"
    session = two.sessions.current("anna", clock.time())
    assert session is not None
    assert session.proxy is two.proxies["dc/two:1"]
    two.sessions.retire(session)
    visit = await two.keeper.enter(task("anna"))
    lease = await two.keeper.leave(Lease(1, task("anna"), 0.0, 0), visit)
    await one.keeper.enter(task("anna", at=found_by(lease)))
    assert one.sessions.current("anna", clock.time()) is None
    assert one.sessions.left("anna") == "dc/two:1"
    without = Process(homes[0], clock)
    assert await without.sees(task("anna")) == "", "the pool is gone, and with it the session"
    note = await homes[0].note(session_note_key("job", "anna"))
    assert note is not None
    assert b"hunter2" not in note.value


async def test_cookies_of_an_earlier_session_are_not_mixed_with_those_of_the_next(
    homes: Sequence[Frontier], clock: ManualClock
) -> None:
    one, two = (Process(home, clock, session_requests=2) for home in homes)
    await one.page(task("anna"), "old=1; Path=/")
    late = await two.keeper.enter(task("anna"))
    late_jar = two._jar(task("anna"), late)
    lease = await two.page(task("anna"), "new=1; Path=/")
    assert await one.sees(task("anna", at=found_by(lease))) == "new=1", "two requests were made before"
    late_jar.set(["late=1; Path=/"], PAGE)
    await two.keeper.leave(Lease(1, task("anna"), 0.0, 0), late)
    assert await two.sees(task("anna")) == "new=1"


@SESSIONS
async def test_what_a_store_that_went_back_has_lost_is_written_again(
    homes: Sequence[Frontier], clock: ManualClock, session: str | None
) -> None:
    process = Process(homes[0], clock)
    lease = await process.page(task(session), "id=1; Path=/")
    await forget_notes(homes[0], "job")
    process.keeper.forget()
    await process.page(task(session, at=found_by(lease)), "other=1; Path=/")
    assert await Process(homes[1], clock).sees(task(session)) == "id=1; other=1"


async def test_they_go_with_their_job(homes: Sequence[Frontier], clock: ManualClock) -> None:
    await Process(homes[0], clock).page(task("anna"), "id=1; Path=/")
    await Process(homes[0], clock).page(task(), "id=1; Path=/")
    await forget_notes(homes[0], "jo")
    assert await Process(homes[1], clock).sees(task("anna")) == "id=1"
    await forget_notes(homes[0], "job")
    assert await homes[0].note(session_note_key("job", "anna")) is None
    assert await homes[0].note(site_note_key("job", "shop.example")) is None


# -- encrypted


async def test_with_a_key_no_cookie_is_in_the_note(homes: Sequence[Frontier], clock: ManualClock) -> None:
    pytest.importorskip("cryptography")
    one, two = (Process(home, clock, session_key="correct horse") for home in homes)
    await one.page(task("anna"), "id=secret-of-anna; Path=/")
    note = await homes[0].note(session_note_key("job", "anna"))
    assert note is not None
    assert b"secret-of-anna" not in note.value
    assert await two.sees(task("anna")) == "id=secret-of-anna"


@pytest.mark.parametrize(
    ("key", "reason"),
    [("", "and there is no session_key: "), ("battery staple", "with another session_key: ")],
)
async def test_a_wrong_or_missing_key_says_what_to_do(
    homes: Sequence[Frontier], clock: ManualClock, key: str, reason: str
) -> None:
    pytest.importorskip("cryptography")
    await Process(homes[0], clock, session_key="correct horse").page(task("anna"), "id=1")
    with pytest.raises(SessionKeyError) as raised:
        await Process(homes[1], clock, session_key=key).sees(task("anna"))
    assert str(raised.value) == (
        f"the cookies in the note 'session/job/anna' are encrypted {reason}set SHOAL_SESSION_KEY to the key that they"
        " were written with, or start the job again with --fresh"
    ).replace("encrypted and", "encrypted, and")


async def test_a_note_in_clear_is_read_and_encrypted_when_it_is_written(
    homes: Sequence[Frontier], clock: ManualClock
) -> None:
    pytest.importorskip("cryptography")
    await Process(homes[0], clock).page(task("anna"), "id=1; Path=/")
    two = Process(homes[1], clock, session_key="correct horse")
    assert await two.sees(task("anna")) == "id=1"
    await two.page(task("anna"), "other=plain; Path=/")
    note = await homes[0].note(session_note_key("job", "anna"))
    assert note is not None
    assert b"plain" not in note.value


def test_a_note_cannot_stand_for_another() -> None:
    pytest.importorskip("cryptography")
    seal = Seal("correct horse")
    data = seal.close("session/job/anna", b"cookies")
    assert seal.open("session/job/anna", data) == b"cookies"
    assert data != seal.close("session/job/anna", b"cookies")
    with pytest.raises(SessionKeyError):
        seal.open("session/job/bob", data)


async def test_a_note_of_another_version_is_no_note(homes: Sequence[Frontier], clock: ManualClock) -> None:
    key = site_note_key("job", "shop.example")
    assert await homes[0].set_note(key, b"\x00junk", 0)
    process = Process(homes[0], clock)
    assert await process.sees(task()) == ""
    await process.page(task(), "id=1; Path=/")
    assert await Process(homes[1], clock).sees(task()) == "id=1"
    assert isinstance(await homes[0].note(key), Note)


PIECES = [
    *("a", "id", "=", ";", " ", "\t", '"', "\\", "Path=", "/", "/a/b/", "Path=x", "Domain=", "shop.example"),
    *(".www.shop.example", "Expires=", "Wed, 21 Oct 2037 07:28:00 GMT", "Max-Age=", "1000", "-1", "Secure"),
    *("99999999999", "HttpOnly", "SameSite=None", "SameSite=x", "ü", "\x80", "{", ",", "[", "__Host-", "%20"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.sampled_from(["", "id="]))
def test_no_odd_cookie_changes_in_the_store(line: str, name: str) -> None:
    """Otherwise it would be written again with every page."""

    async def check() -> None:
        jar = jar_with(name + line)
        other = copy_of(jar)
        assert other.values() == jar.values()
        assert other.changes() == {}

    asyncio.run(check())

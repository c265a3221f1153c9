"""Sessions: whose cookies, which proxy, and for how long; and which cookies nobody may set."""

from __future__ import annotations

import subprocess
import sys

import pytest
from yarl import URL

from shoal.fetch.cookie_jar import CookieJar
from shoal.fetch.proxy.pools import load_pools
from shoal.fetch.proxy.sessions import Sessions
from shoal.settings import Settings

PAGE = "https://shop.example.co.uk/account"


def jar_with(line: str, url: str = PAGE) -> CookieJar:
    jar = CookieJar()
    jar.set([line], URL(url))
    return jar


def sent(jar: CookieJar, url: str) -> set[str]:
    return {cookie.name for cookie in jar.cookies_for(URL(url))}


@pytest.mark.parametrize(
    "domain", ["co.uk", ".co.uk", "uk", "CO.UK", "other.example", "example.com", "ample.co.uk"]
)
async def test_cookies_for_other_domains_and_public_suffixes_are_refused(domain: str) -> None:
    assert len(jar_with(f"id=1; Domain={domain}")) == 0


@pytest.mark.parametrize("host", ["alice.github.io", "shop.blogspot.com"])
async def test_hosts_of_many_owners_are_public_suffixes_too(host: str) -> None:
    assert len(jar_with(f"id=1; Domain={host.partition('.')[2]}", f"https://{host}/")) == 0


async def test_a_cookie_for_the_whole_site() -> None:
    jar = jar_with("id=1; Domain=example.co.uk; Path=/")
    assert sent(jar, "https://www.example.co.uk/") == {"id"}
    assert sent(jar, "https://example.com/") == set()
    assert sent(jar, "https://notexample.co.uk/") == set()


async def test_a_cookie_without_a_domain_is_for_its_host() -> None:
    jar = jar_with("id=1; Path=/")
    assert sent(jar, PAGE) == {"id"}
    assert sent(jar, "https://www.example.co.uk/") == set()


async def test_hosts_without_a_name_have_cookies() -> None:
    assert sent(jar_with("id=1; Path=/", "http://127.0.0.1:8000/"), "http://127.0.0.1:8000/x") == {"id"}


# -- sessions


async def test_each_has_a_jar_of_its_own() -> None:
    sessions = Sessions(Settings())
    alice, bob = (sessions.begin(name, None, 0.0, PAGE) for name in ("alice", "bob"))
    alice.jar.set(["id=alice; Path=/"], URL(PAGE))
    assert sent(bob.jar, PAGE) == set()
    assert sessions.current("alice", 1.0) is alice


@pytest.mark.parametrize(
    ("settings", "requests", "now", "lives"),
    [
        ({}, 1_000_000, 1e9, True),
        ({"session_requests": 3}, 2, 1e9, True),
        ({"session_requests": 3}, 3, 0.0, False),
        ({"session_age": 60}, 0, 59.0, True),
        ({"session_age": 60}, 0, 60.0, False),
    ],
)
async def test_they_end_by_number_and_age(
    settings: dict[str, float], requests: int, now: float, lives: bool
) -> None:
    sessions = Sessions(Settings(**settings))  # type: ignore[arg-type]
    session = sessions.begin("alice", None, 0.0, PAGE)
    session.requests = requests
    assert (sessions.current("alice", now) is session) == lives


async def test_a_retired_one_begins_anew() -> None:
    [proxy] = load_pools(Settings(proxies={"dc": ["http://me:hunter2@one:1"]}), {})["dc"]
    sessions = Sessions(Settings())
    old = sessions.begin("alice", proxy, 0.0, PAGE)
    sessions.retire(old)
    assert sessions.current("alice", 0.0) is None
    assert sessions.left("alice") == "dc/one:1"
    new = sessions.begin("alice", None, 1.0, PAGE)
    sessions.retire(old)
    assert sessions.current("alice", 1.0) is new, "who is retired late ends nobody else's"
    assert "hunter2" not in repr(old)


async def test_headers_that_prove_who_we_are_stay_at_the_origin() -> None:
    headers = {"alice": {"Authorization": "Bearer s", "Accept-Language": "de"}}
    sessions = Sessions(Settings(session_headers=headers))
    session = sessions.begin("alice", None, 0.0, PAGE)
    assert session.headers_for("https://shop.example.co.uk/x") == headers["alice"]
    assert session.headers_for("https://elsewhere.example/x") == {"Accept-Language": "de"}
    assert session.headers_for("http://shop.example.co.uk/x") == {"Accept-Language": "de"}
    assert sessions.begin("bob", None, 0.0, PAGE).headers_for(PAGE) == {}


async def test_their_number_is_bounded() -> None:
    sessions = Sessions(Settings())
    for n in range(1_100):
        sessions.begin(f"s{n}", None, 0.0, PAGE)
        sessions.current("s0", 0.0)
    assert sessions.current("s0", 0.0) is not None, "used lately"
    assert sessions.current("s1", 0.0) is None


def test_a_cookie_with_an_odd_name_writes_nothing_to_stderr() -> None:
    """Else any server could write there, between the lines of a log that is JSON."""
    code = (
        "import asyncio, yarl; from shoal.fetch.proxy.sessions import LastingJar\n"
        "async def main(): LastingJar().set(['a b=1'], yarl.URL('http://a.example/'))\n"
        "asyncio.run(main())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stderr == ""

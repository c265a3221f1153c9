"""Tokens, guesses, sessions, names and origins."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from shoal.dashboard.responses import Refusal, encode
from shoal.dashboard.security import (
    TOKEN_VARIABLE,
    Gatekeeper,
    Guesses,
    Sessions,
    check_same_origin,
    find_token,
    fresh_token,
    host_name,
    is_csrf,
)
from shoal.dashboard.server import Options, Served, is_loopback
from shoal.errors import UsageError
from shoal.inspect.json_form import visible

TOKEN = "a-token-of-good-length"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_token_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert find_token(file, {TOKEN_VARIABLE: TOKEN[::-1]}) == TOKEN
    assert find_token(None, {TOKEN_VARIABLE: f" {TOKEN} "}) == TOKEN
    assert find_token(None, {}) is None


def test_a_bad_token_is_refused_without_being_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    with pytest.raises(UsageError, match="at least 16 characters") as short:
        find_token(file, {})
    assert "secret" not in str(short.value)
    file.write_text("a" * 40)
    with pytest.raises(UsageError, match="6 of them different"):
        find_token(file, {})
    with pytest.raises(UsageError, match="TOKEN: a token has at least"):
        find_token(None, {TOKEN_VARIABLE: ""})
    with pytest.raises(UsageError, match="cannot be read"):
        find_token(tmp_path / "none", {})
    file.write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(UsageError, match="cannot be read"):
        find_token(file, {})


def test_fresh_tokens_differ_and_are_long() -> None:
    assert fresh_token() != fresh_token()
    assert len(fresh_token()) >= 43


@pytest.mark.parametrize("wrong", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü\udcff"])
def test_only_the_token_is_accepted(wrong: str) -> None:
    gatekeeper = Gatekeeper(TOKEN, Clock())
    assert gatekeeper.is_right(TOKEN)
    assert not gatekeeper.is_right(wrong)


def test_guesses_run_out_and_come_back() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    for _ in range(10):
        assert guesses.wait("a") == 0
        guesses.wrong("a")
    assert 0 < guesses.wait("a") <= 6
    assert guesses.wait("b") == 0
    clock.now += 6.1
    assert guesses.wait("a") == 0
    guesses.wrong("a")
    assert guesses.wait("a") > 0


def test_who_has_many_addresses_has_no_more_guesses() -> None:
    guesses = Guesses(Clock())
    for n in range(10):
        guesses.wrong(f"2001:db8:0:1::{n}")
        guesses.wrong("::ffff:192.0.2.1")
    assert guesses.wait("2001:db8:0:1:ffff::") > 0
    assert guesses.wait("::ffff:192.0.2.1") > 0
    for other in ("2001:db8:0:2::1", "::ffff:192.0.2.2", "fe80::1%lo", ""):
        assert guesses.wait(other) == 0


def test_a_strangers_guesses_lock_nobody_out() -> None:
    """Behind a reverse proxy they come from the address of whoever has the token."""
    clock = Clock()
    gatekeeper = Gatekeeper(TOKEN, clock)
    waits = [gatekeeper.wrong("proxy") for _ in range(1_000)]
    assert waits[:10] == [0.0] * 10
    assert all(0 < wait <= 6 for wait in waits[10:]), "guesses while one has to wait do not add up"
    assert gatekeeper.is_right(TOKEN)
    clock.now += 6.1
    assert gatekeeper.wrong("proxy") == 0


def test_addresses_are_forgotten_before_they_are_too_many() -> None:
    guesses = Guesses(Clock())
    for n in range(3_000):
        guesses.wrong(str(n))
    assert len(guesses._left) == 1_000


def test_a_session_ends_when_unused() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    session = sessions.begin()
    clock.now += 11 * 3600
    assert sessions.find(session.id) is session
    clock.now += 11 * 3600
    assert sessions.find(session.id) is session
    clock.now += 12 * 3600 + 1
    assert sessions.find(session.id) is None
    assert len(sessions) == 0


def test_sessions_are_bounded_and_the_longest_unused_goes() -> None:
    sessions = Sessions(Clock())
    first, second = sessions.begin(), sessions.begin()
    for _ in range(98):
        sessions.begin()
    sessions.find(first.id)
    sessions.begin()
    assert len(sessions) == 100
    assert sessions.find(first.id) is first
    assert sessions.find(second.id) is None


def test_each_session_has_a_csrf_token_of_its_own() -> None:
    sessions = Sessions(Clock())
    one, other = sessions.begin(), sessions.begin()
    assert is_csrf(one, one.csrf)
    assert not is_csrf(one, other.csrf)
    assert not is_csrf(one, "")
    sessions.end(one)
    assert sessions.find(one.id) is None


def test_nothing_shows_a_secret() -> None:
    session = Sessions(Clock()).begin()
    served = Served("http://127.0.0.1:1", TOKEN, True)
    shown = f"{session!r} {served!r} {Options('x.db', token=TOKEN)!r} {Gatekeeper(TOKEN, Clock())!r}"
    assert not [secret for secret in (session.id, session.csrf, TOKEN) if secret in shown]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST.:80", "localhost"),
        ("127.0.0.1:8484", "127.0.0.1"),
        ("[::1]:8484", "::1"),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": "http://localhost:1"},
        {"sec-fetch-site": "none"},
        {"origin": "https://LOCALHOST:1"},
    ],
)
def test_our_own_pages_may_ask(headers: dict[str, str]) -> None:
    check_same_origin(Headers({"host": "localhost:1", **headers}))


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:2"},
        {"origin": "null"},
        {"origin": ""},
    ],
)
def test_foreign_pages_may_not(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal):
        check_same_origin(Headers({"host": "localhost:1", **headers}))


def test_which_addresses_are_this_machine_alone() -> None:
    assert [is_loopback(bind) for bind in ("127.0.0.1", "127.8.0.1", "::1", "localhost")] == [True] * 4
    assert [is_loopback(bind) for bind in ("0.0.0.0", "::", "10.0.0.1", "example.com")] == [False] * 4


def test_control_characters_become_visible() -> None:
    assert visible("a\x1b[2J\x00\x7f\r\nb\tc\u202e") == "a␛[2J␀␡\nb\tc\ufffd"


def test_names_that_are_not_text_do_not_break_an_answer() -> None:
    assert encode({"job": "a\udcff"}) == b'{"job": "a\\udcff"}'

"""Events: what is told, where it is kept, and what never is in it."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import re
import string
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import shoal
from shoal.errors import StoreError, UsageError
from shoal.events import EVENTS, event
from shoal.frontier.memory import MemoryFrontier
from shoal.inspect.event_log import KEPT, KEY, EventBook, read_events, tell
from shoal.telemetry import logging as shoal_logging
from shoal.telemetry.relaying import relay

SOURCES = sorted(Path(shoal.__file__).parent.rglob("*.py"))


# -- the vocabulary


def calls() -> Iterator[tuple[str, ast.Call, list[ast.expr]]]:
    """Every `event(…)`, `tell(frontier, …)` and `self._tell(…)` in the sources: where, the call, its positional
    words."""
    for path in SOURCES:
        text = path.read_text("utf-8")
        if not re.search(r"\b(event|_?tell)\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            where = f"{path.name}:{node.lineno}"
            if isinstance(node.func, ast.Attribute):
                if node.func.attr == "_tell" and isinstance(node.args[0], ast.Constant):
                    yield where, node, node.args
            elif isinstance(node.func, ast.Name):
                if node.func.id == "event":
                    yield where, node, node.args
                elif node.func.id == "tell" and len(node.args) > 1:
                    yield where, node, node.args[1:]


def names_of(word: ast.expr) -> set[str]:
    return {n.value for n in ast.walk(word) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


@cache
def told() -> dict[str, list[tuple[str, ast.Call, list[ast.expr]]]]:
    """The calls by the names they may have, which must be written out."""
    found: dict[str, list[tuple[str, ast.Call, list[ast.expr]]]] = {}
    for where, call, words in calls():
        assert names_of(words[0]), where
        for name in names_of(words[0]):
            found.setdefault(name, []).append((where, call, words))
    return found


def fields_in(sentence: str) -> set[str]:
    return ({name for _, name, _, _ in string.Formatter().parse(sentence) if name}) - {
        "at"
    }  # how a command to type names the store


def test_every_event_that_is_told_is_in_the_vocabulary_with_its_fields() -> None:
    assert len(told()) > 30
    for name, found in told().items():
        for where, call, words in found:
            assert name in EVENTS, f"{where}: {name}"
            kind, given = EVENTS[name], {keyword.arg for keyword in call.keywords} - {"exc_info"}
            assert given <= set(kind.fields), f"{where}: {name} has no field {given - set(kind.fields)}"
            if len(words) == 1:
                assert fields_in(kind.sentence) <= given, f"{where}: {name} lacks fields of its sentence"


def test_sentences_speak_of_fields_that_there_are() -> None:
    for name, kind in EVENTS.items():
        assert fields_in(kind.sentence) <= set(kind.fields), name
        assert name == name.lower()


# -- telling


@pytest.fixture
async def frontier() -> AsyncIterator[MemoryFrontier]:
    async with MemoryFrontier() as frontier:
        yield frontier


def test_an_event_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    event("breaker_opened", host="a.example", reason="5 failures in a row", seconds=5.0)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == "host a.example is cooling down: 5 failures in a row"
    assert vars(record)["event"] == "breaker_opened"
    assert vars(record)["fields"]["host"] == "a.example"


async def test_events_are_kept_in_order_with_the_frontiers_time(frontier: MemoryFrontier) -> None:
    before = await frontier.now()
    async with EventBook(frontier):
        event("job_started", job="j", spider="s", done=0)
        await asyncio.create_task(_tell_later())
        event("job_finished", job="j")
    events = await read_events(frontier)
    assert [one.event for one in events] == ["job_started", "breaker_closed", "job_finished"]
    assert [one.id for one in events] == [1, 2, 3]
    assert before <= events[0].at <= events[1].at <= events[2].at <= await frontier.now()
    assert [one.event for one in await read_events(frontier, after=2)] == ["job_finished"]
    event("job_paused", job="j")  # nobody keeps it any more
    assert len(await read_events(frontier)) == 3


async def _tell_later() -> None:
    event("breaker_closed", host="a.example")


async def test_two_crawls_in_one_process_keep_their_own(frontier: MemoryFrontier) -> None:
    async def crawl(home: MemoryFrontier, job: str) -> None:
        async with EventBook(home):
            event("job_started", job=job, spider="s", done=0)
            await asyncio.sleep(0.01)
            event("job_finished", job=job)

    async with MemoryFrontier() as other:
        await asyncio.gather(crawl(frontier, "here"), crawl(other, "there"))
        assert {one.fields["job"] for one in await read_events(frontier)} == {"here"}
        assert {one.fields["job"] for one in await read_events(other)} == {"there"}


async def test_several_processes_share_the_ring_and_it_stays_small(frontier: MemoryFrontier) -> None:
    for number in range(KEPT + 20):
        await tell(frontier, "job_paused", job=f"j{number}")
    events = await read_events(frontier)
    assert len(events) == KEPT
    assert (events[0].id, events[-1].id) == (21, KEPT + 20)
    assert events[-1].fields == {"job": f"j{KEPT + 19}"}


async def test_of_a_flood_a_few_are_kept_and_the_rest_is_counted(
    frontier: MemoryFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("shoal.inspect.event_log.time.monotonic", lambda: now)
    async with EventBook(frontier):
        for number in range(50):
            event("page_dead", url=f"http://a/{number}", kind="http_404")
        event("breaker_closed", host="a")  # others are not held up
        now += 1
        event("page_dead", url="http://a/last", kind="http_404")
    dead = [one for one in await read_events(frontier) if one.event == "page_dead"]
    assert [one.fields.get("others") for one in dead] == [None, None, None, 47]
    assert dead[-1].fields["url"] == "http://a/last"
    assert "breaker_closed" in {one.event for one in await read_events(frontier)}


async def test_progress_is_not_kept(frontier: MemoryFrontier) -> None:
    async with EventBook(frontier):
        event("progress", job="j", done=1, admitted=2)
    assert await read_events(frontier) == []


async def test_secrets_do_not_get_into_events(
    frontier: MemoryFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    async with EventBook(frontier):
        event(
            "handler_failed",
            url="https://me:pa@ss@a.example/x?to=@b",
            handler="h",
            error="no\nline\r\nhas two",
        )
    [one] = await read_events(frontier)
    for text in (one.message, str(one.fields), caplog.text):
        assert "pa@" not in text
        assert "me:" not in text
    assert one.fields["url"] == "https://a.example/x?to=@b"
    assert one.fields["error"] == "no line has two"


async def test_long_texts_are_cut(frontier: MemoryFrontier) -> None:
    await tell(frontier, "job_stuck", job="j", reason="x" * 100_000)
    [one] = await read_events(frontier)
    assert len(one.message) == len(str(one.fields["reason"])) == 500


async def test_words_of_another_version_are_written_over(frontier: MemoryFrontier) -> None:
    await frontier.set_note(KEY, b"\xc1", 0)
    assert await read_events(frontier) == []
    await tell(frontier, "job_paused", job="j")
    assert [one.event for one in await read_events(frontier)] == ["job_paused"]


async def test_a_store_that_fails_or_hangs_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryFrontier):
        async def note(self, key: str) -> None:
            raise StoreError("the store is away")

    class Hanging(MemoryFrontier):
        async def note(self, key: str) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("shoal.inspect.event_log._LAST_WORDS", 0.05)
    for home in (Broken(), Hanging()):
        with caplog.at_level(logging.DEBUG, "shoal"):
            async with home, EventBook(home):
                event("job_paused", job="j")
        assert "the last events are not kept" in caplog.text


# -- JSON


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What the log has said since it was last asked."""
    logger = logging.getLogger("shoal")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.delenv(shoal_logging.FORMAT_VARIABLE, raising=False)
    return lambda: capsys.readouterr().err


Log = Callable[[], str]


def parsed(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_json_line_has_time_level_event_message_and_fields(log: Log) -> None:
    shoal_logging.set_up("info", "json")
    event("backpressure_on", rule="sink", reason="rows wait\u2028for 3 s")
    logging.getLogger("shoal").warning("plain \x1b[2J words")
    event("page_dead", url="http://a/", kind="dns")  # debug
    text = log()
    first, second = parsed(text)
    assert list(first) == ["time", "level", "event", "message", "fields"]
    assert first["event"] == "backpressure_on"
    assert first["level"] == "warning"
    assert first["fields"] == {"rule": "sink", "reason": "rows wait for 3 s"}
    assert str(first["time"]).endswith("Z")
    assert second["event"] == "log"
    assert second["message"] == "plain \x1b[2J words"
    assert "\x1b" not in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_has_a_password(log: Log, form: str) -> None:
    """Nor does one lose what stands between a URL in one field and an address in the next."""
    shoal_logging.set_up("info", form)
    fields = {"url": "http://a.example", "mail": "me@b.example", "to": ["http://me:hunter2@c.example/"]}
    try:
        raise ValueError("cannot reach postgresql://me:hunter2@d.example/")
    except ValueError:
        text = "no http://me:p@hunter2@e.example"
        logging.getLogger("shoal").exception("%s", text, extra={"fields": fields})
    said = log()
    assert "hunter2" not in said
    assert "postgresql://d.example/" in said
    if form == "json":
        [line] = parsed(said)
        assert line["message"] == "no http://e.example"
        assert isinstance(line["fields"], dict)
        assert line["fields"] | fields | {"to": ["http://c.example/"]} == line["fields"]


def test_an_exception_is_a_field(log: Log) -> None:
    shoal_logging.set_up("info", "json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        event("bug", exc_info=True, job="j", url="http://a/", error="ValueError")
    [line] = parsed(log())
    fields = line["fields"]
    assert isinstance(fields, dict)
    assert "Traceback" in fields["traceback"]


def test_the_format_comes_from_the_environment(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shoal_logging.FORMAT_VARIABLE, "json")
    shoal_logging.set_up("info")
    assert shoal_logging.is_json()
    shoal_logging.set_up("info", "text")  # the flag wins
    assert not shoal_logging.is_json()
    with pytest.raises(UsageError, match="log format 'xml' is not known: use one of text, json"):
        shoal_logging.set_up("info", "xml")


def test_what_a_child_says_is_said_again(log: Log) -> None:
    said = '{"time":"x","level":"error","event":"job_set_aside","message":"m","fields":{"job":"j"}}'
    shoal_logging.set_up("info", "text")
    relay(said, 2)
    assert log().endswith("ERROR worker 2: m\n")
    shoal_logging.set_up("info", "json")
    relay(said, 2)
    relay("Segmentation fault", 2)
    first, second = parsed(log())
    assert (first["event"], first["level"]) == ("job_set_aside", "error")
    assert first["fields"] == {"job": "j", "worker": 2}
    assert (second["event"], second["message"]) == ("log", "worker 2: Segmentation fault")

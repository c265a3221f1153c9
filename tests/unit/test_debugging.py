"""What steps aside while a person is in a debugger."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from shoal.engine import liveness
from shoal.engine.liveness import HangDetector, Liveness
from shoal.engine.watchdog import Watchdog
from shoal.errors import UsageError
from shoal.model import Response, Task
from shoal.settings import Settings
from shoal.spider import debugging
from shoal.spider.attached import is_attached
from shoal.spider.debugger import Debugger
from shoal.spider.handlers import HandlerTimeout, Yielded, collect
from shoal.spider.page import Page
from shoal.spider.spider import Handler
from shoal.telemetry.printing import Typed

DEADLINE = 10.0


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(debugging, "TERMINAL", "/nowhere")
    monkeypatch.setattr(debugging, "_state", debugging._State())
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)  # pytest has its own
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    trace = sys.gettrace()
    yield
    sys.settrace(trace)


class Clock:
    """Time that passes at a prompt, or elsewhere."""

    def __init__(self) -> None:
        self.now = 0.0

    def at_prompt(self, seconds: float) -> None:
        self.now += seconds
        debugging.add_pause(seconds)


async def handled(function: Callable[..., object], clock: Clock) -> Yielded:
    page = Page(Task("http://a.test/"), Response("http://a.test/", 200, {}, b""), "page")
    return await collect(Handler("page", function), page, deadline=60.0, monotonic=lambda: clock.now)


# -- the time of a handler


@pytest.mark.parametrize("elsewhere", [50.0, 60.1])
@pytest.mark.parametrize("kind", ["generator", "function", "async generator", "async function"])
async def test_time_at_a_prompt_is_not_the_handlers(kind: str, elsewhere: float) -> None:
    clock = Clock()
    items = [{"a": 1}, {"a": 2}]

    def generator(page: Page) -> Iterator[object]:
        clock.at_prompt(1000.0)
        clock.now += elsewhere
        yield from items

    def function(page: Page) -> list[dict[str, int]]:
        return list(generator(page))  # type: ignore[arg-type]

    async def async_generator(page: Page) -> object:
        for item in function(page):
            yield item

    async def async_function(page: Page) -> object:
        return function(page)

    functions = {
        "generator": generator,
        "function": function,
        "async generator": async_generator,
        "async function": async_function,
    }
    if elsewhere < 60:
        assert (await handled(functions[kind], clock)).items == items
    else:
        with pytest.raises(HandlerTimeout):
            await handled(functions[kind], clock)


async def test_with_a_debugger_attached_no_handler_is_too_late() -> None:
    clock = Clock()

    def slow(page: Page) -> Iterator[object]:
        clock.now += 1000.0
        yield {"a": 1}

    with pytest.raises(HandlerTimeout):
        await handled(slow, clock)
    debugging.activate()
    sys.settrace(lambda *_: None)
    assert (await handled(slow, clock)).items == [{"a": 1}]


# -- the watchdog


async def test_the_watchdog_renews_leases_and_interrupts_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("shoal.engine.watchdog._PULSE", 0.02)
    caplog.set_level(logging.WARNING, "shoal")
    renewed, beats = threading.Semaphore(0), Liveness.create()
    settings = Settings(handler_warn=0.02, handler_timeout=0.05, lease=0.09)
    dog = Watchdog(settings, beats, renew=renewed.release)

    def stands(page: Page) -> dict[str, bool]:
        before = beats.beats
        with debugging.prompting():
            twice = renewed.acquire(timeout=DEADLINE) and renewed.acquire(timeout=DEADLINE)
        return {"renewed": twice, "beats": beats.beats > before}

    dog.start()
    try:
        assert (await handled(stands, Clock())).items == [{"renewed": True, "beats": True}]
    finally:
        dog.stop()
        beats.close()
    assert not caplog.records


def test_a_process_with_an_open_prompt_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_CTRL_C", 0.0)
    record = Liveness.create()
    record.beat(1.0)
    detector = HangDetector(record)
    for second in range(5):
        record.at_prompt(second < 3)
        detector.look(second * liveness._OWN_PAUSE)
        assert not detector.hangs
    for second in range(5, 10):
        detector.look(second * liveness._OWN_PAUSE)
    assert detector.hangs
    record.close()


def test_the_frames_of_a_debugger_are_found() -> None:
    seen: list[FrameType] = []
    code = "def stops(look): look()"
    for module in ("pydevd", "bdb", "shop"):
        space: dict[str, Callable[[Callable[[], None]], None]] = {"__name__": module}  # type: ignore[dict-item]
        exec(code, space)
        space["stops"](lambda: seen.append(sys._getframe()))
    assert [debugging.is_inside(frame, ()) for frame in seen] == [True, True, False]
    assert not debugging.is_inside(seen[0], (__file__,)), "below the handler is none of its"
    assert not debugging.is_inside(None, ())


# -- attached


def test_a_debugger_is_told_from_coverage() -> None:
    class Tracer:
        def __call__(self, *_: object) -> None: ...

    sys.settrace(None)
    assert not is_attached()
    sys.settrace(Tracer())
    assert is_attached()
    Tracer.__module__ = "coverage.tracer"
    assert not is_attached()


# -- breakpoint()


def test_without_a_terminal_it_is_passed_over_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "shoal")
    with debugging.breakpoints():
        breakpoint()
        breakpoint()
        assert not debugging.is_active()
    assert sys.breakpointhook is sys.__breakpointhook__
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("breakpoint() in test_without_a_terminal_it_is_passed_over_and_told_once (")
    assert told.endswith("is passed over: there is no terminal (told once)")


def test_the_debugger_of_somebody_else_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    with debugging.breakpoints(), debugging.listening(told.append):
        monkeypatch.setenv("PYTHONBREAKPOINT", "0")
        breakpoint()
        assert not told
        monkeypatch.setenv("PYTHONBREAKPOINT", f"{__name__}.opened")
        monkeypatch.setattr(sys.modules[__name__], "opened", lambda: told.append("opened"), raising=False)
        breakpoint()
        assert debugging.is_active()
    assert told == [True, "opened", False]
    assert not debugging.is_active(), "the next crawl begins anew"


def test_a_prompt_within_a_prompt_is_one() -> None:
    told: list[bool] = []
    with debugging.listening(told.append), debugging.prompting(), debugging.prompting():
        assert debugging.at_prompt()
    assert told == [True, False]
    assert not debugging.at_prompt()
    assert debugging.paused() > 0


class Terminal(io.StringIO):
    """Somebody types a line, or Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        line = super().readline()
        if not line:
            raise KeyboardInterrupt
        return line


def test_for_input_all_steps_aside_too() -> None:
    told: list[object] = []
    typed = Typed(Terminal("77\n"))
    with debugging.listening(told.append), debugging.stopped_by_quit(lambda: told.append("quit")):
        assert typed.readline() == "77\n"
        space: dict[str, object] = {"__name__": "bdb", "typed": typed}
        with pytest.raises(KeyboardInterrupt):
            exec("typed.readline()", space)  # a debugger has a use for Ctrl-C
        assert told == [True, False] * 2
        with pytest.raises(asyncio.CancelledError):
            typed.readline()
    assert told[4:] == [True, "quit", False]


def test_what_is_no_function_cannot_be_stopped_in() -> None:
    with pytest.raises(UsageError, match="--debug shown: it is no Python function"):
        Debugger().stop_at("shown", print)

"""The liveness record says which page was on the CPU; the detector, whether a process hangs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.engine import liveness as liveness_module
from shoal.engine.liveness import HangDetector, Liveness, waits_for_reader
from shoal.frontier.loss import Loss
from shoal.frontier.verdicts import where


@pytest.fixture
def liveness() -> Iterator[Liveness]:
    liveness = Liveness.create()
    yield liveness
    liveness.close()


def token(liveness: Liveness) -> int:
    """As whoever started the process sees it."""
    return Liveness(liveness.file)._numbers[1]


async def test_the_page_on_the_cpu_is_the_one_recorded(liveness: Liveness) -> None:
    seen: list[tuple[int, int]] = []
    turns = asyncio.Semaphore(0)

    async def page(number: int) -> int:
        for _ in range(3):
            seen.append((number, token(liveness)))
            turns.release()
            await turns.acquire()
            await asyncio.sleep(0)
        return number * 10

    tasks = [asyncio.create_task(liveness.on_cpu(number, page(number), 1)) for number in (7, 8)]
    assert await asyncio.gather(*tasks) == [70, 80]
    assert len(seen) == 6
    assert [number for number, _ in seen] != sorted(number for number, _ in seen), "they take turns"
    assert all(number == recorded for number, recorded in seen)
    assert token(liveness) == 0


async def test_nobody_is_on_the_cpu_while_all_wait(liveness: Liveness) -> None:
    waiting = asyncio.Event()
    page = asyncio.create_task(liveness.on_cpu(7, waiting.wait(), 1))
    await asyncio.sleep(0)
    assert token(liveness) == 0
    waiting.set()
    assert await page is True


async def test_exceptions_and_cancellations_pass_through(liveness: Liveness) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("of the page")

    with pytest.raises(ValueError, match="of the page"):
        await liveness.on_cpu(7, fails(), 1)
    assert token(liveness) == 0
    cleaned: list[int] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(token(liveness))

    page = asyncio.create_task(liveness.on_cpu(8, waits(), 1))
    await asyncio.sleep(0)
    page.cancel()
    with pytest.raises(asyncio.CancelledError):
        await page
    assert cleaned == [8]


async def test_a_timeout_inside_works(liveness: Liveness) -> None:
    async def page() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "never"

    assert await liveness.on_cpu(7, page(), 1) == "in time"


def test_a_hang_is_silence_for_longer_than_a_handler_may_take(liveness: Liveness) -> None:
    detector = HangDetector(liveness)
    liveness.beat(1.0)
    for tenth in range(100, 129):
        detector.look(tenth / 10)
        assert not detector.hangs, tenth
    detector.look(13.1)
    assert detector.hangs
    liveness.beat(1.0)
    detector.look(13.2)
    assert not detector.hangs


@pytest.mark.parametrize("seconds", [1e17, 1e308, float("inf")])
async def test_times_without_end(liveness: Liveness, seconds: float) -> None:
    async def page() -> str:
        return "done"

    liveness.listen(seconds)
    liveness.beat(seconds)
    assert await liveness.on_cpu(7, page(), seconds) == "done"
    assert liveness.grace > 1e12
    assert liveness.limit > 1e12


def test_who_was_asleep_himself_accuses_nobody(liveness: Liveness) -> None:
    detector = HangDetector(liveness)
    liveness.beat(1.0)
    detector.look(10.0)
    detector.look(1000.0)
    assert not detector.hangs
    detector.look(1000.5)
    assert not detector.hangs


def test_silence_that_is_excused_does_not_count(liveness: Liveness) -> None:
    detector = HangDetector(liveness)
    liveness.beat(1.0)
    for second in range(20):
        detector.look(10.0 + second / 2, excused=True)
        assert not detector.hangs


def test_a_start_that_takes_its_time_is_no_hang(liveness: Liveness) -> None:
    detector = HangDetector(liveness)
    seen: list[bool] = []

    async def start() -> None:
        for second in range(20):
            detector.look(10.0 + second / 2)
            seen.append(detector.hangs)

    liveness.beat(1.0)
    asyncio.run(liveness.feeding(start()))
    detector.look(20.5)
    assert not any(seen)
    assert not detector.hangs


def test_feeding_alone_makes_no_process_watched(liveness: Liveness) -> None:
    """A parent of workers feeds, but has no beat: it is not stuck when it is told to stop."""
    asyncio.run(liveness.feeding(asyncio.sleep(0)))
    assert liveness.limit == 0


def test_who_does_not_stop_is_overdue(liveness: Liveness) -> None:
    detector = HangDetector(liveness)

    def overdue(at: float) -> bool:
        detector.look(at)
        return detector.overdue

    liveness.beat(60.0)
    assert not overdue(0.5)
    detector.told_to_stop(0.5, grace=1.0)
    assert not overdue(1.0)
    assert overdue(1.6), "its grace period is over, and nothing moves"
    liveness.beat(60.0)
    assert not overdue(1.7), "it moves: it may write down its results"
    liveness.unwatch()
    assert not any(overdue(2.0 + tenth / 2) for tenth in range(18))
    assert overdue(11.6)


def test_the_last_words_of_a_process_that_hangs(
    liveness: Liveness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stack, though it never runs another line of Python."""
    monkeypatch.setattr(liveness_module, "_STACK_PATIENCE", 60.0)
    monkeypatch.setattr(liveness_module, "_LOOK", 0.5)
    loss_file = tmp_path / "loss_file"
    loss_file.touch()
    code = """
import re, sys
from shoal.engine.liveness import Liveness, leave_stacks
liveness = Liveness(int(sys.argv[1]))
leave_stacks(liveness.file)
liveness.name("w1", sys.argv[2])
async def page():
    print("now", flush=True); re.match(r"(a+)+$", "a" * 60 + "b")
liveness.on_cpu(42, page(), 1.0).send(None)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(liveness.file), str(loss_file)],
        pass_fds=[liveness.file],
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"now\n"
        loss = liveness.loss_of_hang(child.pid, 3.0)
        child.kill()
    assert (loss.worker, loss.token, loss.hung) == ("w1", 42, True)
    assert 'File "<string>", line 8 in page' in loss.stack
    assert Loss.decode("w1", loss_file.read_bytes()) == loss


@pytest.mark.parametrize("words", [b"", b"junk", b"1\n", b"a b\n", b"\xff\xfe"])
def test_words_that_say_nothing(words: bytes) -> None:
    assert Loss.decode("w1", words) is None


def test_a_name_too_long_is_left_out(liveness: Liveness) -> None:
    liveness.name("w1", "x" * 5000)
    assert liveness.worker == "w1"
    assert liveness._read(256) == ""


STACK = """Thread 0x01 (most recent call first):
  File "/lib/threading.py", line 1 in wait

Current thread 0x02 (most recent call first):
  File "/lib/re/__init__.py", line 166 in match
  File "/home/me/site.py", line 12 in price
  File "/home/me/site.py", line 20 in page
  File "/x/shoal/spider/handlers.py", line 93 in _collect_plain
  File "/x/shoal/worker.py", line 130 in _handle
"""


def test_where_it_hung_is_the_line_of_the_handler() -> None:
    assert where(STACK) == " in page (/home/me/site.py:20)"
    assert (
        where(STACK.replace("shoal/spider/handlers.py", "shoal/other.py"))
        == " in match (/lib/re/__init__.py:166)"
    )
    assert where(STACK.replace("Current thread", "Thread")) == " in page (/home/me/site.py:20)"
    assert where("") == ""


def test_a_pipe_that_nobody_reads() -> None:
    reader, writer = os.pipe()
    try:
        assert not waits_for_reader(writer)
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        assert waits_for_reader(writer)
    finally:
        os.close(reader)
    assert not waits_for_reader(writer), "it is told so when it writes"
    os.close(writer)

"""The event loop of a command, and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from shoal.engine.event_loop import run_loop
from shoal.errors import StoreError


async def interrupted(error: Exception | None = None) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        if error is None:
            raise
        raise error from None


def test_ctrl_c_ends_a_command() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_loop(interrupted())


def test_ctrl_c_counts_also_if_the_command_fails_at_that_moment() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_loop(interrupted(StoreError("no answer in time")))


def test_an_error_without_ctrl_c_is_that_error() -> None:
    async def fails() -> None:
        raise StoreError("no answer in time")

    with pytest.raises(StoreError):
        run_loop(fails())

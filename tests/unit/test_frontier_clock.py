"""The frontier's time in a process: set by the answers to claims."""

from __future__ import annotations

import pytest

from shoal.frontier.clock import FrontierClock
from shoal.testing import ManualClock


def test_time_never_goes_back() -> None:
    """Else a probe could seem to have started before the time it was given at."""
    local = ManualClock()
    clock = FrontierClock(local)
    clock.sync(5000.0)
    assert clock.now() == 5000.0
    local.advance(10)
    clock.sync(5009.0)  # a slow answer: it was true a second ago
    assert clock.now() == pytest.approx(5010.0, abs=0.02)
    local.advance(10)
    clock.sync(5021.0)
    assert clock.now() == 5021.0, "a quicker one is nearer to the truth"


def test_clocks_that_drift_apart_are_followed() -> None:
    local = ManualClock()
    clock = FrontierClock(local)
    clock.sync(5000.0)
    for hour in range(1, 100):
        local.advance(3600)
        clock.sync(5000.0 + hour * 3599.0)
    assert clock.now() == pytest.approx(5000.0 + 99 * 3599.0, abs=0.01)


def test_the_first_answer_is_believed_though_the_machine_is_an_hour_ahead() -> None:
    local = ManualClock()
    clock = FrontierClock(local)
    assert clock.now() == local.time(), "until then it is all that is known"
    clock.sync(local.time() - 3600)
    local.jump_wall(7200)
    assert clock.now() == local.time() - 7200 - 3600

"""The file's time: common to all processes, through restarts and reboots, whatever the wall clock does."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.frontier.clock import Timebase
from shoal.frontier.sqlite.schema import boot_id, connect, shared_timebase
from shoal.testing import ManualClock

NOON = 1_800_000_000.0


class Machine:
    """A machine whose clocks are moved by hand, and which can be started anew."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self.clock = ManualClock(wall=NOON, monotonic=500.0)
        self.boot = "first boot"

    def open(self) -> Timebase:
        """Another process opens the file."""
        db = connect(self._path)
        try:
            return shared_timebase(db, self.clock, self.boot)
        finally:
            db.close()

    def reboot(self, *, down_for: float) -> None:
        self.clock = ManualClock(wall=self.clock.time() + down_for, monotonic=3.0)
        self.boot += " and another"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "store.db")


def test_a_new_file_starts_with_the_wall_clock(machine: Machine) -> None:
    assert machine.open().now() == pytest.approx(NOON)


def test_time_goes_on_over_reopening(machine: Machine) -> None:
    machine.open()
    machine.clock.advance(100)
    assert machine.open().now() == pytest.approx(NOON + 100)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0, -40 * 365 * 86400.0])
def test_a_wall_clock_that_is_set_changes_nothing(machine: Machine, jump: float) -> None:
    running = machine.open()
    machine.clock.jump_wall(jump)
    machine.clock.advance(10)
    assert running.now() == pytest.approx(NOON + 10)
    assert machine.open().now() == pytest.approx(NOON + 10), "for a process that comes later, too"


def test_all_processes_have_the_same_time(machine: Machine) -> None:
    one = machine.open()
    machine.clock.advance(5)
    machine.clock.jump_wall(-7200)
    two = machine.open()
    machine.clock.advance(5)
    assert one.now() == pytest.approx(two.now())


def test_a_reboot_anchors_time_to_the_wall_clock_again(machine: Machine) -> None:
    machine.open()
    machine.reboot(down_for=600)
    assert machine.open().now() == pytest.approx(NOON + 600)


def test_time_does_not_run_backwards_over_a_reboot(machine: Machine) -> None:
    """A machine without a battery wakes up in 1970: leases and retries must not wait for decades."""
    machine.open()
    machine.clock.advance(50)
    machine.open()
    machine.reboot(down_for=-(NOON - 100))
    after = machine.open().now()
    assert after == pytest.approx(NOON + 50)
    machine.clock.advance(5)
    assert machine.open().now() == pytest.approx(NOON + 55)


def test_a_reboot_without_a_boot_id_is_noticed_by_the_clock(machine: Machine) -> None:
    """Some systems name their boots all alike; there the monotonic clock that starts anew gives it away."""
    machine.boot = ""
    machine.open()
    machine.reboot(down_for=600)
    machine.boot = ""
    assert machine.open().now() == pytest.approx(NOON + 600)


def test_a_copy_on_another_machine_starts_from_its_wall_clock(machine: Machine) -> None:
    machine.open()
    machine.clock = ManualClock(wall=NOON + 86_400, monotonic=9_999_999.0)
    machine.boot = "elsewhere"
    assert machine.open().now() == pytest.approx(NOON + 86_400)


def test_this_machine_names_its_boot() -> None:
    assert boot_id() == boot_id()

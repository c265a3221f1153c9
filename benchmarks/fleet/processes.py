"""The processes of a fleet: started, watched, killed; none outlives the block that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

import shoal
from shoal.fetch.browser.chromium import children_of

ROOT = Path(__file__).parents[2]
SOURCE = Path(shoal.__file__).parents[1]
DEADLINE = 60.0  # seconds for anything to happen that does not depend on how much there is to do

T = TypeVar("T")


class FleetError(Exception):
    pass


def until(found: Callable[[], T], what: str, *said: Member, seconds: float = DEADLINE) -> T:
    """Looks again and again until there is something true, and answers that. `said` are those who may know why not."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > deadline:
            words = "\n".join(f"{member!r} says: {member.words[-1500:]}" for member in said)
            raise FleetError(f"waited {seconds:.0f} s in vain: {what}\n{words}")
        time.sleep(0.05)
    return answer


class Begun(Protocol):
    """A process that was begun, as subprocess.Popen is one."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def kill(self) -> None: ...


class Begin(Protocol):
    """Begins a command in a folder, in a session of its own: Ctrl-C is for whoever started the fleet. What it says
    goes to the end of a file."""

    def __call__(self, command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> Begun: ...


def execute(command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> Begun:
    with log.open("ab") as words:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )


class Member:
    """One process. Its words go to a file, so it never blocks on a pipe that nobody reads."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        begin: Begin = execute,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.folder = name, folder
        self.log = folder / f"{name}.log"
        self._process = begin(command, folder, _environment(env), self.log)
        self.pid = self._process.pid
        self.started = time.monotonic()

    def __repr__(self) -> str:
        return f"<{self.name}, pid {self.pid}, {'running' if self.running else self._process.poll()}>"

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def words(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def worker(self) -> int:
        """The process that works: the child of the guardian that was started, or that itself."""
        return next(iter(children_of(self.pid)), self.pid)

    def signal(self, number: signal.Signals) -> None:
        """The guardian passes on what it is told; a process that sleeps or wakes does so with all that belong to it."""
        if self.running:
            whole = number in (signal.SIGSTOP, signal.SIGCONT)
            (os.killpg if whole else os.kill)(self.pid, number)

    def kill(self) -> None:
        if self.running:
            self._process.kill()
        self._process.wait()

    def code(self, seconds: float) -> int:
        """The exit code, once it has ended by itself."""
        until(lambda: not self.running, f"the end of {self.name}", self, seconds=seconds)
        return self._process.wait()

    def cpu(self) -> float:
        """Seconds of processor time so far, of the process as a whole."""
        fields = Path(f"/proc/{self.worker}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes that it has to itself."""
        lines = Path(f"/proc/{self.worker}/smaps_rollup").read_text().splitlines()
        parts = (line.split() for line in lines if line.startswith(("Private_", "Pss:")))
        return next(int(words[1]) * 1024 for words in parts if words[0] == "Pss:")


class Members:
    """Every process that was started, in the order of starting."""

    def __init__(self, folder: Path, begin: Begin = execute) -> None:
        self.folder = folder
        self._begin = begin
        self.all: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.all:
            member.kill()

    def start(self, name: str, command: Sequence[str], folder: Path | None = None, **env: str) -> Member:
        member = Member(name, command, folder or self.folder, env, self._begin)
        self.all.append(member)
        return member


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**mine, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]), **more}

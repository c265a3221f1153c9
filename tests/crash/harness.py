"""Real crawls as child processes, to be killed: start, wait, kill, run again, and read what is left.

Nothing here waits without a deadline, and every process that was started is gone when its test ends.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

import shoal
from crash.forking import Forked, Forker, forker
from shoal.frontier.protocol import Frontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.values import Job

SOURCE = str(Path(shoal.__file__).parents[1])
DEADLINE = 120.0  # seconds for anything to happen: a quiet machine needs one or two, a busy one fifty
STORE = ".shoal/shoal.db"  # where the command keeps its state by default
ROWS = "rows.jsonl"
SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
# … and one that is not ended for a second of silence after it was told to stop, as on a busy machine.
_NEVER_STUCK = "from shoal.engine import liveness; liveness._STUCK = 30.0"
UNHURRIED = (sys.executable, "-c", f"{_NEVER_STUCK}; from shoal.cli import main; main()")
FAULTS = (sys.executable, str(Path(__file__).with_name("faults.py")))
FAST = ("--rate", "0", "--per-host", "50")


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Looks again and again until `condition` gives something true, and answers that. A look that takes long, as one
    into the store does, is taken less often: those who are waited for need the processor."""
    deadline = time.monotonic() + seconds
    while True:
        looked = time.monotonic()
        if found := condition():
            return found
        now = time.monotonic()
        assert now < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(min(0.25, max(0.01, 20 * (now - looked))))


class Process:
    """One command that was started. Its output goes to files, so it never blocks on a pipe nobody reads."""

    def __init__(self, command: Sequence[str], folder: Path, number: int) -> None:
        self._command = command
        self._folder = folder
        self._out, self._err = folder / f".out-{number}", folder / f".err-{number}"
        self._code: int | None = None
        self.peak_rss = 0  # bytes, of the largest of its processes so far
        self._looked_at = 0.0
        self._out.touch()
        self._err.touch()
        self.pid = self._start()

    def _start(self) -> int:
        """Answers the process id."""
        python, *argv = self._command
        assert python == sys.executable
        return self._forker.start(argv, self._folder, environment(), self._out, self._err)

    def _exit_code(self) -> int | None:
        """None while it runs."""
        return self._forker.exit_code(self.pid)

    @property
    def _forker(self) -> Forker:
        return forker(SOURCE)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def running(self) -> bool:
        if self._code is None:
            self._look_at_memory()
            self._code = self._exit_code()
        return self._code is None

    def _look_at_memory(self) -> None:
        """Now and then, while it runs: what the kernel tells at the end of a process begins with the size of the one
        that started it, which is pytest's."""
        if time.monotonic() - self._looked_at > 0.1:
            self._looked_at = time.monotonic()
            self.peak_rss = max([self.peak_rss, *map(_peak_rss, [self.pid, *family_of(self.pid)])])

    @property
    def worker(self) -> int:
        """The process that does the work: the child of a guardian, or the command itself."""
        return next(
            (pid for pid in children_of(self.pid) if command_of(pid) == command_of(self.pid)), self.pid
        )

    def children(self) -> list[int]:
        """Those that the working process has started, itself or by its fork server."""
        worker, found = self.worker, list[int]()
        for pid in children_of(worker):
            found += children_of(pid) if command_of(pid) == command_of(worker) else [pid]
        return found

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        """As Ctrl-Z does: the guardian, too."""
        self.signal(signal.SIGSTOP)
        self._to_worker(signal.SIGSTOP)

    def thaw(self) -> None:
        self._to_worker(signal.SIGCONT)
        self.signal(signal.SIGCONT)

    def _to_worker(self, number: signal.Signals) -> None:
        if self.running and self.worker != self.pid:
            os.kill(self.worker, number)

    def kill(self) -> None:
        family = family_of(self.pid) if self.running else []
        self.signal(signal.SIGKILL)
        until(lambda: not self.running, f"the end of {self.pid} after kill -9")
        until(lambda: not any(alive(pid) for pid in family), "the end of its family")

    def code(self, seconds: float = DEADLINE) -> int:
        """The exit code, once it has ended by itself."""
        until(lambda: not self.running, f"the end of {self._command!r}, which says: {self.err}", seconds)
        assert self._code is not None
        return self._code


class FreshProcess(Process):
    """… and is executed, not forked: any program, within limits, or in the middle of its imports."""

    def __init__(self, command: Sequence[str], folder: Path, number: int, limits: dict[int, int]) -> None:
        self._limits = limits
        super().__init__(command, folder, number)

    def _start(self) -> int:
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._popen = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=self._limit_resources if self._limits else None,
            )
        return self._popen.pid

    def _limit_resources(self) -> None:
        for which, value in self._limits.items():
            resource.setrlimit(which, (value, value))

    def _exit_code(self) -> int | None:
        return self._popen.poll()


class Desk:
    """A folder in which commands run, and every process started in it."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self._fresh = fresh  # as in `start`, for all of them
        self._started: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.thaw()
            process.kill()

    def start(
        self,
        *argv: str,
        program: Sequence[str] = SHOAL,
        limits: dict[int, int] | None = None,
        fresh: bool = False,
    ) -> Process:
        """`fresh`: with an interpreter of its own, which takes half a second longer."""
        command, number = [*program, *argv], len(self._started)
        if fresh or self._fresh or limits or program[0] != sys.executable:
            process: Process = FreshProcess(command, self.folder, number, limits or {})
        else:
            process = Process(command, self.folder, number)
        self._started.append(process)
        return process

    def run(
        self, *argv: str, program: Sequence[str] = SHOAL, limits: dict[int, int] | None = None
    ) -> Process:
        """Starts a command and waits for its end."""
        process = self.start(*argv, program=program, limits=limits)
        process.code()
        return process

    def finish(self, *argv: str, program: Sequence[str] = SHOAL) -> Process:
        """Runs a command that must succeed."""
        process = self.run(*argv, program=program)
        assert process.code() == 0, process.err
        return process

    def kill_after_lines(self, count: int, code: str, *argv: str) -> None:
        """Runs that Python, and kills it once it has said so many lines, in the middle of whatever it does."""
        process = self.start(*argv, program=(sys.executable, "-c", code))
        until(lambda: process.out.count("\n") >= count or not process.running, f"{count} lines")
        assert process.running, process.err
        process.kill()

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    # -- what is left behind

    @property
    def rows_path(self) -> Path:
        return self.folder / ROWS

    @property
    def store(self) -> Path:
        return self.folder / STORE

    def size(self) -> int:
        return self.rows_path.stat().st_size if self.rows_path.exists() else 0

    def rows(self) -> list[dict[str, Any]]:
        """The result file, every line of which must be whole."""
        return parse_rows(self.rows_path.read_bytes())

    def urls(self) -> list[str]:
        return sorted(row["url"] for row in self.rows())

    def ask(self, question: Callable[[Frontier], Any]) -> Any:
        """Opens the store as another process would, and awaits the answer."""

        async def answer() -> Any:
            async with SqliteFrontier(self.store) as frontier:
                return await question(frontier)

        return asyncio.run(answer())

    def job(self) -> Job:
        (job,) = self.ask(lambda frontier: frontier.jobs())
        return job

    def committed(self) -> bytes:
        """The part of the result file that the store vouches for."""
        job = self.job()
        length = self.ask(lambda frontier: frontier.journal_length(job.spec.name, str(self.rows_path)))
        data = self.rows_path.read_bytes()
        assert len(data) >= (length or 0), "committed rows are missing from the file"
        return data[: length or 0]

    def status(self) -> dict[str, Any]:
        """`shoal status --json`, of the only job."""
        (job,) = msgspec.json.decode(self.finish("status", "--json").out)["jobs"]
        return job

    def dead(self) -> list[dict[str, Any]]:
        """`shoal dead list --json`."""
        return msgspec.json.decode(self.finish("dead", "list", "--json").out)


def fork(command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> Forked:
    """Begins a process of a benchmark, as its own `execute` does, but at once."""
    return Forked(SOURCE, command, folder, env, log)


def parse_rows(data: bytes) -> list[dict[str, Any]]:
    assert not data or data.endswith(b"\n"), f"the last line is torn: {data[-80:]!r}"
    return [msgspec.json.decode(line) for line in data.splitlines()]


def add_up(counters: dict[str, Any]) -> bool:
    states = ("pending", "delayed", "leased", "done", "dead", "merged")
    return bool(counters["admitted"] == sum(counters[state] for state in states))


# -- processes


def children_of(pid: int) -> list[int]:
    """By the list that the kernel keeps: to look at all processes of the machine takes a hundred times as long."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has just ended
        return []
    for thread in threads:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return sorted(found)


def family_of(pid: int) -> list[int]:
    """Its guardian's child and whoever works for that, all of which end with it."""
    own = [child for child in children_of(pid) if b"shoal" in command_of(child)]
    return own + [grandchild for child in own for grandchild in family_of(child)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    """Whether it runs; a process that has ended and waits for its parent to notice does not. As long as any of its
    threads is left to end, it has its files and their locks."""
    fields = _stat(pid)
    return fields[0] not in ("", "Z") or int(fields[17]) > 1


def state_of(pid: int) -> str:
    """As the kernel writes it: T for one that is stopped. One that is gone is in the same state as a dead one."""
    return _stat(pid)[0] or "Z"


def cpu_seconds(pid: int) -> float:
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def kill_if_alive(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _peak_rss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _stat(pid: int) -> list[str]:
    """The fields from the state on. The name before them is in parentheses and may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["", *["0"] * 17]


def environment() -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return {**mine, "PYTHONPATH": SOURCE}

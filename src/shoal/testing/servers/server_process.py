"""One server process: started, watched, stopped, killed, paused; it never outlives the process that started it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

START_SECONDS = 30.0
STOP_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1


class ServerProcess:
    """Subclasses say what to run (`_command`) and when it is ready (`_ready`)."""

    last_word = (
        signal.SIGKILL
    )  # how it ends when nobody needs it any more, or the process that started it ends

    def __init__(self, folder: str | os.PathLike[str], name: str, port: int) -> None:
        self.folder = Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.port = port
        self.log = self.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    def __repr__(self) -> str:
        state = "stopped" if not self.running else "paused" if self._paused else f"pid {self.pid}"
        return f"<{type(self).__name__} on port {self.port}, {state}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self.last_word)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} has not been started"
        return self._process.pid

    def start(self) -> None:
        """Returns when the server answers."""
        assert not self.running, f"{self.name} is running already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                user=self._user(),
                preexec_fn=_die_with(os.getpid(), self.last_word),
                start_new_session=True,  # Ctrl-C is for the tests
            )
        try:
            wait_until(self._ready_or_dead, START_SECONDS, f"{self.name} does not answer; see {self.log}")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends it the clean way, as the service manager of a machine would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """The same port and the same folder: what was durable comes back."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Still there, but it says nothing: like a machine that hangs, or a network that swallows everything."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._paused:
            self.resume()
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _ready_or_dead(self) -> bool:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"{self.name} ended with {code} while starting:\n{self.tail()}")
        return self._ready()

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _ready(self) -> bool:
        raise NotImplementedError

    def _environment(self) -> Mapping[str, str]:
        return os.environ

    def _user(self) -> int | None:
        """Whom it runs as; None: as whoever starts it."""
        return None


def wait_until(met: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} (waited {seconds:g} s)")
        time.sleep(0.01)


def _die_with(parent: int, how: signal.Signals) -> Callable[[], None] | None:
    """For the moment between fork and exec: the kernel is told to end the server when its parent ends."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, how)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)

    return arrange


# Below the range from which the system takes ports for outgoing connections: one of those could take the port of a
# server while it restarts.
_LOWEST, _HIGHEST = 20000, 32000


_CLAIM = 60.0  # seconds that a port belongs to whoever got it, whether a server listens there or not


def free_port() -> int:
    """A port that nobody has, and that no other process gets from here within a minute: tests run in several processes,
    and a server does not listen at once."""
    with _claims() as folder:
        for _ in range(1000):
            port = random.SystemRandom().randrange(_LOWEST, _HIGHEST)
            claim = folder / str(port)
            if not _is_fresh(claim) and _can_listen(port):
                claim.touch()
                return port
    raise OSError("no free port on loopback")


@contextmanager
def _claims() -> Iterator[Path]:
    """The folder with a file for each port that was given away. Only one process at a time looks into it."""
    folder = Path(tempfile.gettempdir()) / f"shoal-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield folder


def _is_fresh(claim: Path) -> bool:
    try:
        return time.time() - claim.stat().st_mtime < _CLAIM
    except FileNotFoundError:
        return False


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

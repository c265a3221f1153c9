"""What is known of the end of a worker. Imports little: whoever watches processes knows it, too."""

from __future__ import annotations

from typing import NamedTuple


class Loss(NamedTuple):
    """A worker that died, and what is known of its end."""

    worker: str
    token: int = 0  # the lease whose page was on the CPU; 0: none
    seconds: float = 0.0  # for which it hung; 0: it did not, but died
    stack: str = ""
    exit: int = 0  # as subprocess.Popen has it: -9 is death by SIGKILL

    @property
    def hung(self) -> bool:
        return self.seconds > 0

    def words(self) -> bytes:
        """What is left behind for whoever takes the worker's leases back."""
        return f"{self.token} {self.seconds:.1f}\n{self.stack}".encode()

    @classmethod
    def read(cls, worker: str, words: bytes) -> Loss | None:
        head, _, stack = words.decode(errors="replace").partition("\n")
        try:
            token, seconds = head.split()
            return cls(worker, int(token), float(seconds), stack)
        except ValueError:
            return None

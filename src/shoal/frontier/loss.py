"""What is known about the end of a worker. Imports little: the guardian uses it, too."""

from __future__ import annotations

from typing import NamedTuple


class Loss(NamedTuple):
    """A worker that died or hung."""

    worker: str
    token: int = 0  # the lease whose page was on the CPU; 0: none
    seconds: float = 0.0  # for which it hung; 0: it died
    stack: str = ""
    exit: int = 0  # as subprocess.Popen has it: -9 is death by SIGKILL

    @property
    def hung(self) -> bool:
        return self.seconds > 0

    def encode(self) -> bytes:
        """As it is left in a file, for the process that takes the worker's leases back."""
        return f"{self.token} {self.seconds:.1f}\n{self.stack}".encode()

    @classmethod
    def decode(cls, worker: str, data: bytes) -> Loss | None:
        head, _, stack = data.decode(errors="replace").partition("\n")
        try:
            token, seconds = head.split()
            return cls(worker, int(token), float(seconds), stack)
        except ValueError:
            return None

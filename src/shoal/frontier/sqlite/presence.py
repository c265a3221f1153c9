"""Which workers of a file are alive.

A worker holds a lock on a small file of its own while it lives, and the kernel drops the lock however the process ends.
If another process can take the lock, the worker is gone, and its leases can be taken back at once. (A process id would
not do: it is reused, and differs between containers.)
"""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

try:
    import fcntl
except ImportError:  # without flock, leases simply run out
    fcntl = None  # type: ignore[assignment]


def workers_folder(store: str) -> Path:
    """The folder with the locks of a store's workers."""
    return Path(f"{store}-workers")


def living(folder: Path) -> list[str]:
    """The workers that are certainly alive."""
    presence = Presence(folder)
    names = os.listdir(folder) if folder.is_dir() else []
    return [] if fcntl is None else sorted(name for name in names if not presence.has_left(name))


class Presence:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder if fcntl is not None else None
        self._held: dict[str, int] = {}

    def announce(self, worker: str) -> None:
        if self._folder is None or worker in self._held:
            return
        handle = self._create(self._folder, worker)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._held[worker] = handle

    def _create(self, folder: Path, worker: str) -> int:
        while True:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                return os.open(folder / worker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                pass  # another worker has just left and removed the empty folder

    def is_dead(self, worker: str) -> bool:
        """Whether it is certainly dead. True only once: the caller takes its leases back."""
        return self.take_loss(worker) is not None

    def take_loss(self, worker: str) -> bytes | None:
        """What its file says about the end of a dead worker, perhaps b""; None if it may be alive. Only once: the
        caller takes its leases back."""
        if not self.has_left(worker):
            return None
        assert self._folder is not None
        path = self._folder / worker
        try:
            words = path.read_bytes()
        except FileNotFoundError:
            return None  # another process was first
        path.unlink(missing_ok=True)
        return words

    def path(self, worker: str) -> str:
        """The worker's file, in which its guardian may leave the loss; "": there is none."""
        return str((self._folder / worker).absolute()) if self._folder is not None else ""

    def has_left(self, worker: str) -> bool:
        """Whether nobody holds the worker's lock. True only if it is certain."""
        # Names come from the store. A name with a path could make us remove any file.
        if self._folder is None or worker in self._held or not _is_plain(worker):
            return False
        path = self._folder / worker
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    @property
    def announced(self) -> Set[str]:
        return self._held.keys()

    def leave(self, holding: Set[str]) -> None:
        """Drops the locks. The files of workers that still hold leases stay, to show others that they are dead."""
        for worker, handle in self._held.items():
            assert self._folder is not None
            if worker not in holding:
                (self._folder / worker).unlink(missing_ok=True)
            os.close(handle)
        self._held.clear()
        if self._folder is not None:
            try:
                self._folder.rmdir()
            except OSError:
                pass  # other workers are there, or the folder was never made


def _is_plain(worker: str) -> bool:
    return os.path.basename(worker) == worker and "\0" not in worker and worker not in ("", ".", "..")

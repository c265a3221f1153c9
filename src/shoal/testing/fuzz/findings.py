"""What was found: an input that breaks a target's rule, kept in a file, with the command that shows it again."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal[
    "exception",  # the target raised
    "growth",  # twice the input takes more than three times as long
    "slow",  # it takes much longer than so few bytes may
    "hang",  # it did not end
    "death",  # the process died
]

_SHRINKING = 2.0  # seconds


class Finding(Struct, frozen=True):
    target: str
    kind: Kind
    what: str  # one line
    data: bytes
    place: str = ""  # where it was raised: of one place, the first finding is kept

    @property
    def name(self) -> str:
        return f"{self.target}-{self.kind}-{hashlib.sha256(self.data).hexdigest()[:10]}"

    def save(self, folder: Path) -> Path:
        """The input as it is, and a text beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.bin"
        path.write_bytes(self.data)
        text = f"{self.kind} in {self.target}: {self.what}\n\n{len(self.data)} bytes: {self.data[:200]!r}\n"
        path.with_suffix(".txt").write_text(
            f"{text}\nagain: {again(self.target, path)}\n", "utf-8", "replace"
        )
        return path


def again(target: str, path: Path) -> str:
    return f"python -m shoal.testing.fuzz {target} --replay {path}"


def raised(target: str, error: Exception, data: bytes) -> Finding:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())[:300]
    return Finding(target, "exception", f"{type(error).__name__} at {place}: {text}", data, place)


def shrunk(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """A smaller input that fails in the same way, as far as it is found soon."""
    until = time.monotonic() + _SHRINKING
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data) and time.monotonic() < until:
            smaller = data[:at] + data[at + size :]
            if fails(smaller):
                data = smaller
            else:
                at += size
        size //= 2
    return data

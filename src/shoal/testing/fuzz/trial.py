"""Tries inputs on one target, in this process: what they raise, how long they take, how that grows with their size.

What the process is at lies in a file that its watcher has mapped, too.
"""

from __future__ import annotations

import gc
import hashlib
import mmap
import os
import random
import struct
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from shoal.testing.fuzz.corpus import ORDINARY, inputs
from shoal.testing.fuzz.mutator import Mutator
from shoal.testing.fuzz.target import Run, Target
from shoal.testing.fuzz.targets import TARGETS

_GROWTH = 3.0  # times as long for twice the size, and that twice over, is more than n·log n
_MUCH = 20.0  # times the bound is too slow, however it grows
_FAMILY_EVERY = 512  # inputs; then one fragment is repeated n and 4n times
_FAMILY_SIZE = 8 * 1024  # bytes of the first of them
_TIDY_EVERY = 1_000  # inputs: garbage is collected between them, not while one is timed
_MOST_FINDINGS = 20


class Work(Struct, frozen=True):
    """What a fuzzing process is to do."""

    target: str
    inputs: int
    seed: int = 0
    seconds: float = 0.0  # 0: until all inputs were tried
    skip: int = 0  # inputs that were tried before
    corpus: bool = True  # begins with what is written in the corpus


class Trial:
    """One target, and what was found with it."""

    def __init__(self, target: Target, run: Run, begin: Callable[[bytes], None] = lambda data: None) -> None:
        self._target = target
        self._run = run
        self._begin = begin  # told of every input before it is tried
        self._places: set[str] = set()
        self.findings: list[Finding] = []

    def warm_up(self, examples: Iterable[bytes]) -> None:
        """What is read or imported at the first use is no part of what an input takes."""
        for data in examples:
            self._cpu(data)

    def __call__(self, data: bytes) -> Finding | None:
        """Tries an input. A second finding at the same place is none."""
        self._begin(data)
        started = time.process_time()
        try:
            self._run(data)
        except Exception as error:
            return self._keep(self._shrunk(raised(self._target.name, error, data)))
        spent = time.process_time() - started
        if spent > self._target.bound(len(data)):
            return self._keep(self._looked_at(data, spent))
        return None

    def family(self, before: bytes, fragment: bytes, after: bytes) -> Finding | None:
        """Tries a fragment n times over, and 4n times."""
        count = max(1, _FAMILY_SIZE // len(fragment))
        small, large = (before + fragment * (count * times) + after for times in (1, 4))
        if (found := self(small) or self(large)) is not None or self._cpu(large) < self._target.floor:
            return found
        return self._keep(self._growth(small, self._least(small), large, self._least(large)))

    def _looked_at(self, data: bytes, spent: float) -> Finding | None:
        """An input that took long: because it is large, or because of what is in it?"""
        if spent > self._target.bound(len(data)) * _MUCH:
            what = f"{len(data)} bytes take {spent:.2f} s"
            return Finding(self._target.name, "slow", what, data, "slow")
        # Not the same input again: what was found out about it may be cached.
        return self._growth(data, spent, data * 4, self._cpu(data * 4))

    def _growth(self, data: bytes, spent: float, larger: bytes, longer: float) -> Finding | None:
        if longer <= _GROWTH**2 * max(spent, self._target.floor / 10):
            return None
        what = f"{len(data)} bytes take {spent * 1e3:.1f} ms, {len(larger)} bytes {longer * 1e3:.1f} ms"
        return Finding(self._target.name, "growth", what, data, "growth")

    def _least(self, data: bytes) -> float:
        """A busy machine takes longer, but never shorter."""
        return min(self._cpu(data) for _ in range(3))

    def _cpu(self, data: bytes) -> float:
        self._begin(data)
        started = time.process_time()
        try:
            self._run(data)
        except Exception:
            pass  # what it raises is looked at elsewhere
        return time.process_time() - started

    def _shrunk(self, found: Finding) -> Finding:
        if found.place in self._places:
            return found

        def fails(data: bytes) -> bool:
            self._begin(data)
            try:
                self._run(data)
            except Exception as error:
                return raised(found.target, error, data).place == found.place
            return False

        smaller = shrunk(found.data, fails)
        return Finding(found.target, found.kind, found.what, smaller, found.place)

    def _keep(self, found: Finding | None) -> Finding | None:
        if found is None or found.place in self._places:
            return None
        self._places.add(found.place)
        self.findings.append(found)
        return found


def tried(work: Work, trial: Trial, target: Target) -> Iterator[int]:
    """Tries the inputs of some work; yields how many are done, after each."""
    written = list(inputs(target).values())
    done = work.skip
    if work.corpus:
        for data in written[done : work.inputs]:
            trial(data)
            done += 1
            yield done
    rng = random.Random(f"{work.seed} {done}")
    mutator = Mutator(written, target.words, rng, target.largest)
    while done < work.inputs and len(trial.findings) < _MOST_FINDINGS:
        if done % _FAMILY_EVERY == _FAMILY_EVERY - 1 and not target.structured:
            trial.family(*mutator.family(target.largest))
        else:
            trial(mutator.next())
        done += 1
        yield done


def run_child(work: Work, share_path: Path, folder: Path) -> None:
    """The whole life of a fuzzing process."""
    target, share, parent = TARGETS[work.target], Share(share_path), os.getppid()
    until = time.monotonic() + work.seconds if work.seconds else float("inf")
    done = work.skip
    with target.open() as run:
        trial = Trial(target, run, lambda data: share.begin(done, data))
        trial.warm_up(ORDINARY.get(target.name, ()))
        gc.disable()
        saved = 0
        for done in tried(work, trial, target):
            share.finish(done)
            for found in trial.findings[saved:]:
                found.save(folder)
                saved += 1
            if done % _TIDY_EVERY == 0:
                gc.collect()
            if done % 64 == 0 and (time.monotonic() > until or os.getppid() != parent):
                return


_HEAD = struct.Struct("<QQQ")  # inputs done, signs of life, length of the current input
_ROOM = 4 * 1024 * 1024


class Share:
    """What a fuzzing process shares with the one that watches it: how far it is, and the input it is at.

    It lies in a file that both have mapped, so that it is still there when the process was killed, or died in a library
    that is written in C.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        with path.open("w+b" if new else "r+b") as file:
            if new:
                file.truncate(_HEAD.size + _ROOM)
            self._map = mmap.mmap(file.fileno(), _HEAD.size + _ROOM)

    def begin(self, done: int, data: bytes) -> None:
        """Before an input is tried."""
        _, beats, _ = _HEAD.unpack_from(self._map)
        kept = data[:_ROOM]
        self._map[_HEAD.size : _HEAD.size + len(kept)] = kept
        _HEAD.pack_into(self._map, 0, done, beats + 1, len(kept))

    def finish(self, done: int) -> None:
        _, beats, size = _HEAD.unpack_from(self._map)
        _HEAD.pack_into(self._map, 0, done, beats + 1, size)

    @property
    def done(self) -> int:
        done: int = _HEAD.unpack_from(self._map)[0]
        return done

    @property
    def beats(self) -> int:
        beats: int = _HEAD.unpack_from(self._map)[1]
        return beats

    @property
    def current(self) -> bytes:
        size = _HEAD.unpack_from(self._map)[2]
        return self._map[_HEAD.size : _HEAD.size + size]

    def close(self) -> None:
        self._map.close()


Kind: TypeAlias = Literal[
    "exception",  # the target raised
    "growth",  # twice the input takes more than three times as long
    "slow",  # it takes much longer than so few bytes may
    "hang",  # it did not end
    "death",  # the process died
]

_SHRINKING = 2.0  # seconds


class Finding(Struct, frozen=True):
    """What was found: an input that breaks a target's rule, kept in a file, with the command that shows it again."""

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

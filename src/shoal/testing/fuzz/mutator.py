"""Inputs from other inputs: flipped, spliced, repeated, with words that the target knows put in. Seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_POOL = 512  # inputs that are changed further, besides the seeds
_NUMBERS = (*b"0 -1 1e309 2147483648 9223372036854775808 4294967295 00".split(), b"\xff", b"\0")
_REPEATS = (2, 3, 8, 33, 129, 520, 2_000)


class Mutator:
    def __init__(
        self, seeds: Sequence[bytes], words: Sequence[bytes], rng: random.Random, largest: int = 4096
    ) -> None:
        self._largest = largest
        self._seeds = [seed[:largest] for seed in seeds] or [b""]
        self._pool: list[bytes] = []
        self._words = [*words, *_NUMBERS]
        self._rng = rng
        # Those named twice are chosen twice as often.
        self._ways: Sequence[Callable[[bytes], bytes]] = (
            self._flip, self._set, self._insert_word, self._insert_word, self._replace_by_word, self._delete,
            self._copy, self._splice, self._repeat, self._random_bytes, self._swap_lines, self._words_only,
        )  # fmt: skip

    def next(self) -> bytes:
        rng = self._rng
        pool = self._pool if self._pool and rng.getrandbits(1) else self._seeds
        data = rng.choice(pool)
        for _ in range(1 + rng.getrandbits(2)):
            data = rng.choice(self._ways)(data)[: self._largest]
        if not rng.getrandbits(4):
            self._keep(data)
        return data

    def family(self, size: int) -> tuple[bytes, bytes, bytes]:
        """What stands before, a fragment to repeat, and what stands behind: for a look at how time grows."""
        data, rng = self.next(), self._rng
        start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        fragment = data[start:end][: 1 + rng.randrange(48)] or rng.choice(self._words) or b"x"
        return data[:start][:size], fragment, rng.choice((b"", b"x", data[end:][:64]))

    def _keep(self, data: bytes) -> None:
        if len(self._pool) < _POOL:
            self._pool.append(data)
        else:
            self._pool[self._rng.randrange(_POOL)] = data

    def _span(self, data: bytes) -> tuple[int, int]:
        start = self._rng.randrange(len(data) + 1)
        return start, min(len(data), start + 1 + int(self._rng.expovariate(0.1)))

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\0"
        at = self._rng.randrange(len(data))
        return data[:at] + bytes((data[at] ^ (1 << self._rng.getrandbits(3)),)) + data[at + 1 :]

    def _set(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data) + 1)
        return data[:at] + bytes((self._rng.getrandbits(8),)) + data[at + 1 :]

    def _insert_word(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data) + 1)
        return data[:at] + self._rng.choice(self._words) + data[at:]

    def _replace_by_word(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + self._rng.choice(self._words) + data[end:]

    def _delete(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _copy(self, data: bytes) -> bytes:
        start, end = self._span(data)
        at = self._rng.randrange(len(data) + 1)
        return data[:at] + data[start:end] + data[at:]

    def _splice(self, data: bytes) -> bytes:
        other = self._rng.choice(self._seeds)
        return data[: self._rng.randrange(len(data) + 1)] + other[self._rng.randrange(len(other) + 1) :]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._span(data)
        times = self._rng.choice(_REPEATS)
        return data[:start] + data[start:end] * times + data[end:]

    def _random_bytes(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data) + 1)
        return data[:at] + self._rng.randbytes(1 + self._rng.getrandbits(4)) + data[at:]

    def _swap_lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n", 64)
        first, second = self._rng.randrange(len(lines)), self._rng.randrange(len(lines))
        lines[first], lines[second] = lines[second], lines[first]
        return b"\n".join(lines)

    def _words_only(self, data: bytes) -> bytes:
        """Begins anew, from nothing but words."""
        return b"".join(self._rng.choices(self._words, k=1 + self._rng.getrandbits(5)))

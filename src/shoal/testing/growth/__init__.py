"""Does the time grow with the input, or faster? Feeds everything that reads from the network with repeated fragments.

A reader is given a fragment n, 2n and 4n times. Where four times as much takes more than eight times as long, it grows
faster than n log n, and somebody will find a fragment that holds a crawl. What takes no longer than a moment may grow
as it likes: a parser may have a budget that it always uses up.

    python -m shoal.testing.growth          all elements of HTML, and the known attacks
    python -m shoal.testing.growth --pairs  all pairs of elements, too: an hour or two
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from msgspec import Struct

from shoal.testing.growth.families import Family
from shoal.testing.growth.readers import Reader

MOST = 8.0  # times as long for four times as much: linear is 4, n log n is below 5, quadratic is 16
_RUNS = 3


class Growth(Struct, frozen=True):
    reader: str
    family: str
    size: int  # bytes of the largest input
    seconds: float  # that it took
    times: float  # as long as a quarter of it

    def __str__(self) -> str:
        taken = f"{self.seconds * 1000:,.1f} ms for {self.size:,} bytes"
        return f"{self.reader}: {self.family}: {taken}, {self.times:.1f} times as long as for a quarter"


def growth(reader: Reader, family: Family, size: int) -> Growth:
    """How the time grows up to `size` bytes. Below the reader's moment, by one."""
    large = family.of(size)
    taken = seconds(reader.read, large)
    if taken <= reader.moment(len(large)):
        return Growth(reader.name, family.name, len(large), taken, 1.0)
    times = float("inf")
    for _ in range(_RUNS):  # on a busy machine the first may be wrong
        taken = min(taken, seconds(reader.read, large))
        quarter = min(seconds(reader.read, family.of(size // 4)) for _ in range(_RUNS))
        times = min(times, taken / max(quarter, 1e-9))
        if times <= MOST or taken <= reader.moment(len(large)):
            break
    return Growth(reader.name, family.name, len(large), taken, times)


def too_fast(found: Growth, reader: Reader) -> bool:
    return found.times > MOST and found.seconds > reader.moment(found.size)


def seconds(read: Callable[[bytes], object], data: bytes) -> float:
    """Of the CPU, in this thread."""
    gc.disable()
    try:
        began = time.thread_time()
        read(data)
        return time.thread_time() - began
    finally:
        gc.enable()

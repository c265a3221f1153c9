"""python -m shoal.testing.growth: the whole table, and the worst of it."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain

from shoal.testing.growth import Growth, families, growth, too_fast
from shoal.testing.growth.families import Family
from shoal.testing.growth.readers import PAGES, TEXTS, Reader

_WORST = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.growth", description=__doc__)
    parser.add_argument("--size", type=int, default=256 * 1024, help="bytes of the largest input")
    parser.add_argument("--pairs", action="store_true", help="all pairs of elements, too")
    parser.add_argument("--reader", help="only this one")
    options = parser.parse_args()
    logging.getLogger("shoal").setLevel(logging.ERROR)  # that pages are cut is no news here
    began, failed, found = time.monotonic(), 0, list[Growth]()
    for reader, family in _work(options.pairs):
        if options.reader in (None, reader.name):
            one = growth(reader, family, options.size)
            found.append(one)
            if too_fast(one, reader):
                failed += 1
                print(f"TOO FAST  {one}", flush=True)  # noqa: T201
    found.sort(key=lambda one: one.seconds, reverse=True)
    print(  # noqa: T201
        f"\n{len(found):,} measured in {time.monotonic() - began:.0f} s, {failed} grow too fast. The longest:"
    )
    for one in found[:_WORST]:
        print(f"  {one}")  # noqa: T201
    return 1 if failed else 0


def _work(with_pairs: bool) -> Iterator[tuple[Reader, Family]]:
    yield from _each(PAGES, chain(families.markup(), families.singles()))
    yield from _each(TEXTS, families.text())
    if with_pairs:
        yield from _each(PAGES[:1], families.pairs())


def _each(readers: Iterable[Reader], all_of: Iterable[Family]) -> Iterator[tuple[Reader, Family]]:
    for family in all_of:
        for reader in readers:
            yield reader, family


if __name__ == "__main__":
    sys.exit(main())

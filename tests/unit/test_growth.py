"""Four times as much takes about four times as long, whatever is repeated, in everything that reads from the network.

A sample of what `python -m shoal.testing.growth --pairs` measures.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable

import pytest

from shoal.testing import growth_families as families
from shoal.testing.growth import PAGES, TEXTS, Reader, growth, too_fast
from shoal.testing.growth_families import Family

pytestmark = pytest.mark.slow

SIZE = 64 * 1024


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "shoal")  # pages are cut


def check(readers: Iterable[Reader], samples: Iterable[Family], size: int = SIZE) -> None:
    chosen = list(samples)
    for reader in readers:
        for family in chosen:
            found = growth(reader, family, size)
            assert not too_fast(found, reader), str(found)


@pytest.mark.parametrize("reader", PAGES, ids=lambda reader: reader.name)
def test_markup(reader: Reader) -> None:
    check([reader], families.markup())


@pytest.mark.parametrize("reader", TEXTS, ids=lambda reader: reader.name)
def test_headers_and_urls(reader: Reader) -> None:
    check([reader], families.text(), SIZE)


def test_elements() -> None:
    check(PAGES[:1], random.Random(1).sample(list(families.singles()), 20))


def test_pairs_of_elements() -> None:
    check(PAGES[:1], random.Random(2).sample(list(families.pairs()), 20))


def test_what_grows_too_fast_is_seen() -> None:
    def quadratic(data: bytes) -> None:
        for at in range(0, len(data), 64):
            data.find(b"y", at)

    reader = Reader("quadratic", quadratic)
    assert too_fast(growth(reader, Family("x"), 1024 * 1024), reader)
    linear = Reader("linear", lambda data: sum(data))
    assert not too_fast(growth(linear, Family("x"), 2 * 1024 * 1024), linear)

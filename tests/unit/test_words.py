"""Numbers as people read them, at the edges of their units."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.text import humanize


@pytest.mark.parametrize(
    ("per_second", "said"),
    [
        (None, "-"),
        (0.0, "0"),
        (1 / 86_400, "0.000012"),
        (0.333, "0.33"),
        (4.0, "4"),
        (12.34, "12"),
        (99.4, "99"),
        (99.96, "100"),
        (100.0, "100"),
        (1250.0, "1,250"),
    ],
)
def test_a_speed(per_second: float | None, said: str) -> None:
    assert humanize.speed(per_second) == said


@given(st.floats(1e-9, 1e12))
def test_a_speed_has_no_exponent_and_is_near_the_truth(per_second: float) -> None:
    said = humanize.speed(per_second)
    assert re.fullmatch(r"\d{1,3}(,\d{3})*|0\.\d+|\d\.\d", said)
    assert float(said.replace(",", "")) == pytest.approx(per_second, rel=0.05)

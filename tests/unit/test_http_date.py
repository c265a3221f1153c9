"""Dates as servers write them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from shoal.clock import http_date


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",  # without a zone, and yet not local time
        "Sun, 06 Nov 1994 09:49:37 +0100",
    ],
)
def test_all_its_forms(text: str) -> None:
    assert http_date(text) == 784111777.0


@pytest.mark.parametrize(
    "text", ["", "yesterday", "0", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 99999 08:49:37 GMT"]
)
def test_what_is_none(text: str) -> None:
    assert http_date(text) is None

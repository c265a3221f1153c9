"""What the crash tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.harness import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk

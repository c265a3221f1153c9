"""What the attacks share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.stage import Stage, honest_web, in_peace
from crash.harness import Desk
from shoal.testing import WebProcess


@pytest.fixture(scope="session")
def web() -> Iterator[WebProcess]:
    with honest_web() as web:
        yield web


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


@pytest.fixture
def stage(desk: Desk, web: WebProcess) -> Stage:
    return Stage(desk, web)


@pytest.fixture(scope="session")
def twice(tmp_path_factory: pytest.TempPathFactory, web: WebProcess) -> float:
    """Twice the time that the honest web takes without an attack."""
    return 2 * in_peace(tmp_path_factory.mktemp("peace"), web)

"""What the tests of single parts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.testing.servers import ValkeyServer


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Nothing is asked here of its disk."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey"), appendonly=False) as server:
        yield server

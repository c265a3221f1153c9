"""Fixtures for tests of spiders, which pytest finds by itself where Shoal is installed.

`shoal_site` serves a folder, `shoal_valkey` and `shoal_postgres` are real servers, `shoal_snapshot` compares items with
a file. Every pytest run imports this module, so it imports nothing but pytest until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from shoal.testing.pages import Content
    from shoal.testing.served_folder import ServedFolder
    from shoal.testing.servers import PostgresServer, ValkeyServer
    from shoal.testing.snapshots import Snapshots

_WRITTEN = "shoal_snapshot"  # the property of a test that wrote a snapshot


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("shoal").addoption(
        "--shoal-update",
        action="store_true",
        help="write the snapshots of shoal_snapshot that differ or are missing",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("shoal_update"):
        return
    reports = [
        one for kind in terminalreporter.stats.values() for one in kind if hasattr(one, "user_properties")
    ]
    paths = {str(path) for one in reports for name, path in one.user_properties if name == _WRITTEN}
    for path in sorted(paths):
        terminalreporter.write_line(f"snapshot written: {path}")


@pytest.fixture
def shoal_site() -> Iterator[Callable[[Path | str | Mapping[str, Content]], ServedFolder]]:
    """A function that serves a folder, or pages by path, on loopback until the test ends."""
    from shoal.testing.served_folder import ServedFolder

    with ExitStack() as served:
        yield lambda pages: served.enter_context(ServedFolder(pages))


@pytest.fixture(scope="session")
def shoal_valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """The server of `shoal_valkey`, for all tests of the process."""
    from shoal.testing.servers import ValkeyServer

    with ValkeyServer(tmp_path_factory.mktemp("shoal-valkey"), appendonly=True, fsync="always") as server:
        yield server


@pytest.fixture
def shoal_valkey(shoal_valkey_server: ValkeyServer) -> ValkeyServer:
    """A Valkey without data; `shoal_valkey.url` is a store."""
    shoal_valkey_server.command("FLUSHALL")
    return shoal_valkey_server


@pytest.fixture(scope="session")
def shoal_postgres_server() -> Iterator[PostgresServer]:
    """The server of `shoal_postgres`, for all tests of the process."""
    from tempfile import TemporaryDirectory

    from shoal.testing.servers import PostgresServer

    # Not in a folder of pytest: started by root, it runs as a user who cannot reach those.
    made = TemporaryDirectory(prefix="shoal-postgres-", ignore_cleanup_errors=True)
    with made as folder, PostgresServer(folder) as server:
        yield server


@pytest.fixture
def shoal_postgres(shoal_postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid4().hex[:12]}"
    yield shoal_postgres_server.create_database(name)
    shoal_postgres_server.drop_database(name)


@pytest.fixture
def shoal_snapshot(request: pytest.FixtureRequest) -> Iterator[Snapshots]:
    """A function that compares items with `snapshots/MODULE/TEST.json` beside the test."""
    from shoal.testing.snapshots import Snapshots

    node = request.node
    test = f"{request.cls.__name__}.{node.name}" if request.cls is not None else node.name
    folder = node.path.parent / "snapshots" / node.path.stem
    snapshots = Snapshots(folder, test, update=request.config.getoption("shoal_update"))
    yield snapshots
    node.user_properties += [(_WRITTEN, str(path)) for path in snapshots.written]

"""What the whole suite shares."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import hypothesis
import pytest

import which_browser  # before anything looks for one
from dealing import deal
from shoal.testing.servers import PostgresServer, ValkeyServer

# A run must mean the same thing everywhere: under CI the examples are fixed, at home they are new every time.
# No example is timed: how long it takes says more about the machine than about the code.
hypothesis.settings.register_profile("shoal", deadline=None, max_examples=50, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("shoal")

pytest.register_assert_rewrite("shoal.testing.conformance", "shoal.testing.stateful")

# What drives a browser compiles itself at each start, unless it may keep what it made of that.
os.environ.setdefault("NODE_COMPILE_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "node"))

gc.disable()  # while tests are collected: a fifth of the time went into looking at objects that stay


def pytest_configure() -> None:
    """A shell script that starts the suite in the background makes it, and all that tests start, ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = deal(items)


def pytest_collection_finish() -> None:
    """What is there now stays until the end, even if nobody needs it. The collector need not look at it: with thousands
    of tests, each full collection would take half a second."""
    _seed_once()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """DuckDB takes what the last collection passes over for leaks, and says so in 48 lines."""
    if "duckdb" in sys.modules:
        gc.unfreeze()


@hypothesis.given(hypothesis.strategies.none())
def _seed_once(_: None) -> None:
    """Hypothesis asks the collector who refers to its random numbers, when it first needs them. What is frozen does not
    count, and it would warn."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """The log is one for the whole process: what a test, or a command in it, set up is undone."""
    loggers = [logging.getLogger(name) for name in ("shoal", "")]
    before = [(log.handlers[:], log.level, log.propagate) for log in loggers]
    result = yield
    for known in logging.root.manager.loggerDict.values():
        if isinstance(known, logging.Logger):
            known.disabled = False  # logging.config disables what it does not know
    for log, (handlers, level, propagate) in zip(loggers, before, strict=True):
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)  # which also forgets what was known of levels
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under CI a skipped test is a failure: what the suite needs, the project installs."""
    report = yield
    if os.environ.get("CI") and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def browsers_have_our_priority() -> Iterator[None]:
    with which_browser.our_priority():
        yield


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """One server for all tests of this process, as durable as is asked of one, so that no command warns of it. Tests
    that stop it or change it start one of their own."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey"), appendonly=True, fsync="always") as server:
        yield server


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> ValkeyServer:
    """A server without data."""
    valkey_server.command("FLUSHALL")
    return valkey_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of this process, in a folder that an unprivileged user can reach."""
    folder = tempfile.mkdtemp(prefix="shoal-postgres-")
    try:
        with PostgresServer(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid4().hex[:12]}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)

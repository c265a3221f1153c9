"""What people write: settings, addresses of stores and databases, times of day."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from shoal import config
from shoal.errors import UsageError
from shoal.fetch.proxy.pools import load_pools
from shoal.frontier.redis.address import Address
from shoal.jobs.cron import parse_cron
from shoal.settings import Settings
from shoal.sink.postgres.address import read_address
from shoal.testing.fuzz.reader import as_text, lines
from shoal.testing.fuzz.target import Run
from shoal.testing.fuzz.targets.urls import check_line


def settings(data: bytes) -> None:
    """Settings from a flag, the environment or a file are checked, or refused in one line."""


@contextmanager
def open_settings() -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as folder:
        file = Path(folder) / "shoal.toml"

        def run(data: bytes) -> None:
            key, value, toml = lines(data, 3)
            file.write_bytes(toml)
            name, text = as_text(key), as_text(value)
            _refused(lambda: config.load(file, {}, {}, {}))
            _refused(lambda: config.load(_nothing(folder), {}, {}, {name: text}))
            _refused(lambda: config.load(_nothing(folder), {}, {f"SHOAL_{name.upper()}": text}, {}))

        yield run


@lru_cache(1)
def _nothing(folder: str) -> Path:
    """An empty file, instead of a shoal.toml that happens to lie in the current directory."""
    path = Path(folder) / "empty.toml"
    path.touch()
    return path


def _refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except UsageError as error:
        check_line(str(error))


def addresses(data: bytes) -> None:
    """Addresses of stores, databases and proxies are read, or refused in one line; none shows its password."""
    text = as_text(data)
    for scheme in ("redis", "unix", "redis+sentinel", "redis+cluster"):
        try:
            shown = str(Address.parse(f"{scheme}://{text}", {}))
        except UsageError as error:
            shown = str(error)
            assert len(shown.splitlines()) == 1, shown
        # What stands behind a socket's first slash, or is a user's name, may be shown.
        may_be_shown = scheme == "unix" or shown.startswith("no password for user")
        assert may_be_shown or "s3cret@" not in shown, "it shows a password"
    try:
        found = read_address(f"postgresql://{text}")
        assert "s3cret@" not in found.shown
    except UsageError as error:
        check_line(str(error))
    _refused(lambda: load_pools(Settings(proxies={"pool": [f"http://{text}"]}), {}))


def cron(data: bytes) -> None:
    """A time of day is found within eight years, or refused in one line."""
    try:
        assert parse_cron(as_text(data)).after(1_700_000_000.0) > 1_700_000_000.0
    except UsageError as error:
        check_line(str(error))

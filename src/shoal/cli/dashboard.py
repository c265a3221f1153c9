"""`shoal dashboard`: the crawls of a store in the browser."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from shoal.cli import options
from shoal.errors import UsageError

if TYPE_CHECKING:
    from shoal.dashboard.server import Options, Served

log = logging.getLogger("shoal")

DEFAULT_PORT = 8484


def dashboard(
    store: options.Store = options.DEFAULT_STORE,
    port: Annotated[
        int, options.option("--port", value="N", text="Where it listens; 0 takes a free port.")
    ] = DEFAULT_PORT,
    bind: Annotated[
        str | None,
        options.option(
            "--bind",
            value="ADDRESS",
            text="For others than this machine; put TLS in front.",
            default="127.0.0.1",
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        options.option("--name", value="NAME", text="A name it is reached by, through a proxy. Repeatable."),
    ] = None,
    token_file: Annotated[
        Path | None,
        options.option(
            "--token-file",
            value="FILE",
            text="The token to log in with, instead of SHOAL_DASHBOARD_TOKEN or a fresh one.",
        ),
    ] = None,
    read_only: Annotated[
        bool, options.switch("--read-only", text="Show everything and change nothing.")
    ] = False,
    open_browser: Annotated[bool, options.switch("--open", text="Open it in the browser.")] = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Show the crawls of a store in the browser: how they go, why they are slow, and the levers for that."""
    from shoal.dashboard.server import LOOPBACK, Options
    from shoal.engine.event_loop import run_loop
    from shoal.runtime.signals import stoppable

    options.set_up_logging(log_level, log_format)
    wanted = Options(
        store=store,
        bind=LOOPBACK if bind is None else bind,
        port=checked_port(port, "--port"),
        names=tuple(names or ()),
        token=chosen_token(token_file),
        read_only=read_only,
    )
    run_loop(stoppable(_serve(wanted, open_browser)))


def checked_port(port: int, option: str) -> int:
    if not 0 <= port <= 65_535:
        raise UsageError(f"{option} {port}: a port is a number from 0 to 65535")
    return port


def chosen_token(file: Path | None) -> str | None:
    """None: a fresh one is to be made, and told."""
    from shoal.dashboard.security import TOKEN_VARIABLE, find_token
    from shoal.telemetry.logging import only_json

    token = find_token(file, os.environ)
    if token is None and only_json():
        raise UsageError(
            f"a fresh token would stand in the log: choose one, in a --token-file or {TOKEN_VARIABLE}"
        )
    return token


async def _serve(wanted: Options, open_browser: bool) -> None:
    import asyncio
    import webbrowser

    from shoal.dashboard.server import dashboard, is_loopback
    from shoal.runtime.signals import stopping_on_signals

    ending = _Ending()
    async with dashboard(wanted) as served:
        if not is_loopback(wanted.bind):
            _say(
                f"anybody who can reach {wanted.bind} can see this: put TLS in front of it, see docs/dashboard.md"
            )
        announce(served)
        if open_browser:
            await asyncio.to_thread(webbrowser.open, served.login_url)
        with stopping_on_signals(ending, "the dashboard ends"):
            await ending.wait()


class _Ending:
    """The first signal is enough."""

    def __init__(self) -> None:
        import asyncio

        self._asked = asyncio.Event()

    def stop(self) -> None:
        self._asked.set()

    force = stop

    async def wait(self) -> None:
        await self._asked.wait()


def announce(served: Served) -> None:
    """On stderr. A token that somebody chose is not repeated."""
    if served.fresh:
        _say(f"dashboard: {served.login_url}")
    else:
        _say(f"dashboard: {served.url}/ (log in with your token)")


def _say(line: str) -> None:
    from shoal.telemetry.logging import only_json

    if only_json():
        log.warning("%s", line)
        return
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


# -- beside a crawl


@asynccontextmanager
async def beside(store: str, wanted: bool, port: int | None) -> AsyncIterator[None]:
    """Serves a dashboard while a crawl runs in this process, if the options say so."""
    if not wanted and port is None:
        yield
        return
    from shoal.dashboard.server import Options, dashboard

    if store == ":memory:":
        raise UsageError("--dashboard: a crawl in memory cannot be looked at; name a file with --store")
    listened = checked_port(DEFAULT_PORT if port is None else port, "--dashboard-port")
    async with dashboard(
        Options(store=store, port=listened, token=chosen_token(None), create=True)
    ) as served:
        announce(served)
        yield

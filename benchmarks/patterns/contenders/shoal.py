"""`shoal crawl -i urls.txt`, durable as always, with its times scaled like everybody's.

A slot is one of the pages the engine works on at once. It is noted from outside when work on a page begins and when
its request is sent; in between, a page holds a slot without using it.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from time import monotonic

from benchmarks.patterns.terms import NOT_SENT, ROWS, TIMEOUT, URLS, Attempt, AttemptLog, Terms, read_terms
from shoal.cli import main
from shoal.engine.pipeline import Pipeline
from shoal.fetch.http import HttpTransport
from shoal.fetch.transport import FetchRequest
from shoal.model import Failure, Lease, Outcome, Settlement
from shoal.settings import Settings

NAMES: dict[int | str, str] = {"read_timeout": TIMEOUT, "connect_timeout": TIMEOUT, "connect": NOT_SENT}
# Times of this machine and not of the web: left as they are.
OUR_OWN_TIME = frozenset(
    {
        "lease",
        "grace",
        "handler_timeout",
        "handler_warn",
        "max_sink_lag",
        "max_loop_lag",
        "settle_delay",
        "upload_delay",
    }
)

_taken: ContextVar[float] = ContextVar("taken")


def note_requests(log: AttemptLog) -> None:
    """From here on every fetch of this process is logged."""
    work, fetch = Pipeline.process, HttpTransport.fetch

    async def noting_work(self: Pipeline, lease: Lease) -> Settlement | None:
        _taken.set(monotonic())
        return await work(self, lease)

    async def noting_fetch(self: HttpTransport, request: FetchRequest) -> Outcome:
        sent = monotonic()
        outcome = await fetch(self, request)
        name: int | str = outcome.kind if isinstance(outcome, Failure) else outcome.status
        name = NAMES.get(name, name)
        log.write(Attempt(request.url, sent - _taken.get(), sent, monotonic(), name))
        return outcome

    Pipeline.process = noting_work  # type: ignore[method-assign]
    HttpTransport.fetch = noting_fetch  # type: ignore[method-assign]


def scaled_settings(terms: Terms) -> dict[str, float]:
    """Every setting that is a time of the web, divided by the scale; the defaults are what a user would have.

    Goes by the name of the type as it is written: shares and rates are numbers of the same kind."""
    usual = Settings()
    return {
        name: terms.seconds(getattr(usual, name))
        for name, kind in Settings.__annotations__.items()
        if kind in ("Seconds", "PositiveSeconds") and name not in OUR_OWN_TIME
    }


def command(terms: Terms) -> list[str]:
    words = ["shoal", "crawl", "-i", str(URLS), "-o", str(ROWS), "--depth", "0", "--no-robots", "--quiet"]
    words += ["-s", "trust_start=true"]  # the web is on this machine
    words += ["--concurrency", str(terms.shoal_slots), "--per-host", terms.shoal_per_host]
    words += ["--rate", str(terms.per_second(terms.shoal_rate))]
    for name, value in scaled_settings(terms).items():
        words += ["-s", f"{name}={value}"]
    return words


if __name__ == "__main__":
    log = AttemptLog()
    note_requests(log)
    sys.argv = command(read_terms())
    try:
        main()
    finally:
        log.close()

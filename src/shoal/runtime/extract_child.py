"""A process of `shoal extract`: `python -m shoal.runtime.extract_child`. Runs handlers on archived pages."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which are most of its start
    from shoal.engine.startup import postpone_collection

    postpone_collection()

import mmap
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from shoal.admit.referrer import Referrer
from shoal.archive.reader import ArchivedPage, PageReader, Spot, request_key, survey
from shoal.archive.records import variant_of
from shoal.archive.warc_source import WarcError
from shoal.clock import PageClock
from shoal.engine.event_loop import run_loop
from shoal.engine.handling import Handling
from shoal.engine.liveness import die_with
from shoal.engine.page_fetches import PageFetches
from shoal.engine.page_hooks import PageHooks
from shoal.engine.process_hooks import ProcessHooks
from shoal.engine.tally import Tally
from shoal.errors import ShoalError
from shoal.html.page_links import join
from shoal.model import Dead, Lease, Retry, Row, Settlement
from shoal.model.request import Request
from shoal.policy.outcomes import kind_of
from shoal.runtime.extract_messages import (
    EXAMPLES,
    End,
    ExtractPlan,
    Failed,
    Locate,
    Located,
    Look,
    Looked,
    Ready,
    ToChild,
    Trouble,
    Work,
    Worked,
    encoded,
    to_child,
)
from shoal.settings import Settings
from shoal.spider.inner import FetchFailed, File
from shoal.spider.page import Page
from shoal.spider.spider import Spider
from shoal.spider.state import MemoryState, state_of
from shoal.telemetry.logging import set_up
from shoal.telemetry.printing import give_stdout_back, take_stdout

NOT_ARCHIVED = "not_archived"
_REDIRECTS = 10


class ArchiveFetcher:
    """`page.fetch` and `page.download`, without a network."""

    def __init__(self, reader: PageReader, locate: Callable[[bytes], Spot | None]) -> None:
        self._reader = reader
        self._locate = locate

    async def fetch(
        self, request: Request, *, lease: Lease, handler: str = "", inner: PageFetches | None = None
    ) -> Page:
        url = join(request.base or lease.task.url, request.url) or request.url
        variant = variant_of(request.method, request.body)
        for _ in range(_REDIRECTS):
            found = self._read(url, variant)
            if found.response.status not in range(300, 400):
                break
            url, variant = join(url, found.response.headers.get("Location", "")) or url, ""
        page = Page(found.task, found.response, handler, found.asked_at, inner=inner)
        if kind_of(found.response) != "ok":
            status = found.response.status
            raise FetchFailed(
                url, f"http_{status}", f"HTTP {status}, in the archive", status=status, page=page
            )
        return page

    def _read(self, url: str, variant: str) -> ArchivedPage:
        spot = self._locate(request_key(url, variant))
        if spot is None:
            raise FetchFailed(url, NOT_ARCHIVED, "it is not in the archive, and extract fetches nothing")
        try:
            return self._reader.read(spot)
        except WarcError as error:
            raise FetchFailed(url, NOT_ARCHIVED, f"its record in the archive is broken: {error}") from None

    async def download(
        self, request: Request, *, lease: Lease, to: str, name: str, referrer: Referrer | None
    ) -> File:
        raise FetchFailed(request.url, NOT_ARCHIVED, "extract downloads no files")


class Extractor:
    """Runs handlers on archived pages, one after another."""

    def __init__(
        self,
        spider: Spider,
        settings: Settings,
        reader: PageReader,
        locate: Callable[[bytes], Spot | None],
        hooks: PageHooks,
        clock: PageClock,
    ) -> None:
        self._spider = spider
        self._reader = reader
        self._clock = clock
        inner = ArchiveFetcher(reader, locate)
        self._handling = Handling(
            spider,
            settings,
            links=None,
            tally=Tally(),
            clock=clock,
            rng=random.Random(0),
            hooks=hooks,
            inner=inner,
            downloads=inner,
        )

    async def work(self, work: Work, now_at: Callable[[int], None]) -> Worked:
        rows: list[Row] = []
        counts: Counter[str] = Counter()
        troubles: Counter[str] = Counter()
        examples: list[Trouble] = []
        pages = 0
        for index, spot in enumerate(work.spots):
            now_at(index)
            done = await self._page(spot)
            pages += isinstance(done, Settlement)
            if isinstance(done, Settlement):
                rows += done.rows
                for name, number in done.counts:
                    counts[name] += number
                found = _troubles(done)
            else:
                found = [done]
            for trouble in found:
                troubles[trouble.kind] += 1
                if troubles[trouble.kind] <= EXAMPLES:
                    examples.append(trouble)
        return Worked(work.number, pages, rows, dict(counts), dict(troubles), examples)

    async def _page(self, spot: Spot) -> Settlement | Trouble:
        try:
            page = self._reader.read(spot)
        except WarcError as error:
            return Trouble("broken", "", "", str(error))
        task = page.task
        if not self._spider.has_handler(task.handler):
            known = ", ".join(self._spider.handlers)
            detail = f"the spider has no handler {task.handler!r} (it has {known})"
            return Trouble("no_handler", task.url, task.handler, detail)
        self._clock.at = page.asked_at + page.response.elapsed
        lease = Lease(0, task, 0.0, 0)
        return await self._handling.handle(lease, page.response, None, page.asked_at, page.record)


def _troubles(done: Settlement) -> list[Trouble]:
    task, verdict = done.lease.task, done.verdict
    found = [
        Trouble("rejected", task.url, task.handler, item.history[-1].detail if item.history else "")
        for item in done.rejected
    ]
    if isinstance(verdict, Dead | Retry):
        snapshot = verdict.snapshot if isinstance(verdict, Dead) else done.snapshot
        trace = snapshot.traceback if snapshot is not None else ""
        found.append(Trouble(verdict.failure.kind, task.url, task.handler, verdict.failure.detail, trace))
    return found


class _Child:
    def __init__(self, connection: Connection, progress: memoryview) -> None:
        self._connection = connection
        self._progress = progress

    def _receive(self) -> ToChild:
        return to_child(self._connection.recv_bytes())

    def _locate(self, request: bytes) -> Spot | None:
        self._connection.send_bytes(encoded(Locate(request)))
        answer = self._receive()
        assert isinstance(answer, Located)
        return answer.spot

    def _now_at(self, index: int) -> None:
        self._progress[0] = index
        self._progress[1] += 1

    async def run(self) -> None:
        plan = self._receive()
        assert isinstance(plan, ExtractPlan)
        spider, settings = plan.source.load(), plan.settings
        files = [Path(file) for file in plan.files]
        hooks, clock = ProcessHooks(), PageClock()
        made = hooks.of(spider, settings)
        reader = PageReader(files, cap=settings.max_body, handler=plan.handler)
        extractor = Extractor(
            spider, settings, reader, self._locate, PageHooks(made, spider, settings, clock), clock
        )
        with state_of(MemoryState()):
            await hooks.start(made, settings)
            self._connection.send_bytes(encoded(Ready()))
            while not isinstance(message := self._receive(), End):
                if isinstance(message, Look):
                    self._connection.send_bytes(
                        encoded(Looked(message.file, survey(files[message.file], message.choice)))
                    )
                elif isinstance(message, Work):
                    done = await extractor.work(message, self._now_at)
                    self._connection.send_bytes(encoded(done))
            await hooks.close()


def main(argv: Sequence[str]) -> int:
    """`argv`: the level and the form of the log, the parent's process id, and the numbers of two inherited files: the
    socket to the parent, and the memory that has the page at hand."""
    level, form, *numbers = argv
    parent, number, memory = map(int, numbers)
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    set_up(level, form)
    take_stdout()
    connection = Connection(number)
    progress = memoryview(mmap.mmap(memory, 4096)).cast("Q")
    try:
        run_loop(_Child(connection, progress).run())
    except (EOFError, ConnectionError):
        return 1  # the parent is gone
    except ShoalError as error:
        connection.send_bytes(encoded(Failed(str(error), error.exit_code)))
        return error.exit_code
    except OSError as error:
        connection.send_bytes(encoded(Failed(f"the archive cannot be read: {error}", 3)))
        return 3
    finally:
        give_stdout_back()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

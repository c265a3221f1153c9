"""Where the rows and the downloaded files of a job go, in one process: claimed first, complete in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import ShoalError, SinkAway
from shoal.events import event
from shoal.frontier.protocol import Frontier
from shoal.jobs.note import is_for_fleet
from shoal.runtime.output_checks import file_claim
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.sink.files import FileStore, files_folder
from shoal.sink.journals import LocalJournal, Several
from shoal.sink.objects.in_objects import InObjects
from shoal.sink.objects.object_store import ObjectStore, is_object_store
from shoal.sink.objects.outage import Outage
from shoal.sink.ownership import FileClaim

if TYPE_CHECKING:
    from shoal.engine.archiving import Archiver

_PATIENCE = 60.0  # seconds that an object store may be away at the end of a job


class JobOutput:
    def __init__(
        self, job: str, sink: Sink, frontier: Frontier, settings: Settings, made_at: Callable[[], float]
    ) -> None:
        self.sink = sink
        self._job = job
        self._frontier = frontier
        self._setting = settings.files
        self._made_at = made_at
        self._files: FileStore | None = None

    def archiver(self, settings: Settings, start: str) -> Archiver | None:
        """If one of its places is an archive. `start`: the handler of start pages."""
        journal = self.sink.journal
        if not isinstance(journal, Several) or journal.archive is None:
            return None
        from shoal.engine.archiving import Archiver

        return Archiver(settings, journal.archive, self._job, start)

    async def open(self) -> None:
        await self.sink.open(await self._claim())

    async def _claim(self) -> FileClaim | None:
        journal = self.sink.journal
        owned = isinstance(journal, LocalJournal | InObjects)
        job = await self._frontier.job(self._job) if owned else None
        return await file_claim(self._frontier, job, journal.key) if journal and job else None

    def check_files(self) -> None:
        """A bad address of an object store is told before anything is fetched."""
        if is_object_store(self._setting):
            self.files()

    def files(self) -> FileStore:
        """Where downloaded files go; made when the first one comes."""
        if self._files is None:
            objects = ObjectStore(self._setting) if is_object_store(self._setting) else None
            folder = files_folder(self._setting, self._rows_file())
            self._files = FileStore(folder, self._job, self._made_at(), objects)
            self._files.sweep_others()
        return self._files

    def _rows_file(self) -> Path | None:
        """The first file on this machine that rows go to."""
        journal = self.sink.journal
        if isinstance(journal, Several):
            return next((place.path for place in journal.places if place.kind == "file"), None)
        return journal.path if isinstance(journal, LocalJournal) else None

    async def finish_objects(self) -> None:
        """Rows in an object store are complete when the job has ended: it is said there which parts they are."""
        if not isinstance(self.sink.journal, InObjects):
            return
        from shoal.runtime.object_endings import finish_objects

        outage, until = Outage(), time.monotonic() + _PATIENCE
        while True:
            try:
                await finish_objects(self._frontier, self._job, self.sink.journal)
            except SinkAway as error:
                pause = outage.pause(error)
                if time.monotonic() + pause > until:
                    raise
                await asyncio.sleep(pause)
            else:
                outage.end()
                return

    async def close(self) -> None:
        try:
            await self._finish_rows()
        finally:
            await self.sink.close()
            await self._sweep_files()

    async def _finish_rows(self) -> None:
        journal = self.sink.journal
        if not isinstance(journal, LocalJournal):
            return
        try:
            job = await self._frontier.job(self._job)
            if job is None or job.state != "finished" or job.counters.leased:
                return  # somebody may be writing
            committed = await self._frontier.journal_length(self._job, journal.key)
        except ShoalError:
            return  # the store is away
        if not committed:
            return
        try:
            await asyncio.to_thread(journal.finish, committed)
        except SinkAway as error:  # nothing is lost: the rows wait on the disk
            if is_for_fleet(job.spec):  # else the command tells it
                event("output_unfinished", job=self._job, error=str(error))

    async def _sweep_files(self) -> None:
        if self._files is None:
            return
        try:
            job = await self._frontier.job(self._job)
        except ShoalError:
            return  # the store is away: what is left will be swept by the next job of this name
        if job is None or job.state == "finished":
            await asyncio.to_thread(self._files.sweep)

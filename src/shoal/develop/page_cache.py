"""Adds pages to the cache of the commands of development: a folder of WARC files, as a crawl writes it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from shoal import __version__
from shoal.archive.members import SUFFIXES, compress
from shoal.archive.record_id import new_id
from shoal.archive.records import Records, warcinfo
from shoal.engine.archiving import Archiver
from shoal.errors import SinkError
from shoal.fetch.challenge import Challenge, Challenges
from shoal.model import Done, Lease, Moved, Response, Settlement, Task
from shoal.settings import BROWSER, Settings

JOB = "develop"  # the name of the job that these pages belong to


async def keep(
    page: tuple[Task, Response], moves: Sequence[tuple[Task, Response]], settings: Settings, folder: Path
) -> str:
    """Adds a page, and the redirects that led to it. Returns the id of its record."""
    try:
        _make(folder)
        archiver = Archiver(settings, folder, JOB, "")
        try:
            found, id = await _records(archiver, page, moves, settings)
        finally:
            archiver.close()
        _write(folder, found, settings)
    except OSError as error:
        raise SinkError(
            f"cannot add the page to the cache {folder}: {error.strerror or error}; --cache DIR takes another folder,"
            " --no-cache does without"
        ) from None
    return id


def _make(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    if folder.parent.name == ".shoal":  # pages do not belong into a repository
        with suppress(FileExistsError), open(folder.parent / ".gitignore", "x") as file:
            file.write("*\n")


async def _records(
    archiver: Archiver,
    page: tuple[Task, Response],
    moves: Sequence[tuple[Task, Response]],
    settings: Settings,
) -> tuple[list[Records], str]:
    found: list[Records] = []
    now, id = time.time(), new_id()
    for (task, response), (to, _) in pairwise([*moves, page]):
        found += await _encoded(
            archiver, Settlement(_lease(task), Moved(to)), response, new_id(), now, is_page=False
        )
    task, response = page
    # A person can look at the page of a wall; a crawl has to judge it.
    is_page = challenge_of(task, response, settings) is None
    found += await _encoded(archiver, Settlement(_lease(task), Done()), response, id, now, is_page=is_page)
    return found, id


def challenge_of(task: Task, response: Response, settings: Settings) -> Challenge | None:
    """For what a crawl would take the page, such as a login form."""
    return Challenges(settings, browser=task.lane != BROWSER).look(response, asked=task.origin)


async def _encoded(
    archiver: Archiver, settlement: Settlement, response: Response, id: str, now: float, *, is_page: bool
) -> list[Records]:
    settlement = await archiver.add(settlement, response, id=id, at=now - response.elapsed, page=is_page)
    return [row for row in settlement.archived if isinstance(row, Records)]


def _lease(task: Task) -> Lease:
    return Lease(0, task, 0.0, 0)


def _write(folder: Path, found: Sequence[Records], settings: Settings) -> None:
    """In a file of its own, which is complete or not there: several commands may run at the same time."""
    compression = settings.archive_compression
    made = time.strftime("%Y%m%d%H%M%S", time.gmtime())
    name = f"{JOB}-{made}-{new_id()[:8]}{SUFFIXES[compression]}"
    about = warcinfo(name, JOB, f"Shoal/{__version__}", time.time())
    hidden = folder / f".{name}.part"
    try:
        hidden.write_bytes(compress(about, compression) + b"".join(one.data for one in found))
        os.replace(hidden, folder / name)
    finally:
        hidden.unlink(missing_ok=True)

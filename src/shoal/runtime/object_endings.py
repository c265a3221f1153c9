"""The end of a job whose processes write parts to object stores: which parts count is listed there.

Whoever sees the end does it, so it may be done several times. The order matters: first the parts are listed, then the
job is seen to have no page in hand, then the committed positions are read. A part that was there before the second step
and is not committed after it will never be.
"""

from __future__ import annotations

import asyncio

from shoal.frontier.protocol import Frontier, Journal
from shoal.frontier.values import Job
from shoal.sink.objects.object_parts import ObjectParts, conclude, positions_at, read_manifest, remove
from shoal.sink.objects.object_several import SeveralObjects, heads_at, old_commits
from shoal.sink.objects.object_spool import SpooledObjects
from shoal.sink.outputs import read_output
from shoal.sink.ownership import Owner


async def finish_objects(frontier: Frontier, name: str, journal: Journal | None) -> None:
    """Nothing is done while the job has pages in hand, or if it was made anew."""
    if isinstance(journal, ObjectParts):
        await _finish_one(frontier, name, journal)
    elif isinstance(journal, SeveralObjects):
        await _finish_several(frontier, name, journal)


async def _finish_one(frontier: Frontier, name: str, parts: ObjectParts) -> None:
    listed = await asyncio.to_thread(parts.store.sizes)
    job = await _ended(frontier, name, parts.owner)
    if job is None or parts.owner is None:
        return
    positions = positions_at(parts.store.url, await frontier.journals(name))
    await asyncio.to_thread(conclude, parts.store, parts.owner, listed, positions, job.finished_at)


async def _finish_several(frontier: Frontier, name: str, several: SeveralObjects) -> None:
    owner, commits = several.owner, several.commits
    if owner is None:
        return
    before = positions_at(commits.url, await frontier.journals(name))
    known = [*several.known(), *await asyncio.to_thread(heads_at, commits, owner, before)]
    parts = {text: several.part(place) for text in known for place in read_output([text], stored=True)}
    listed = {text: await asyncio.to_thread(part.store.sizes) for text, part in parts.items()}
    old = await asyncio.to_thread(commits.sizes)
    job = await _ended(frontier, name, owner)
    if job is None:
        return
    positions = positions_at(commits.url, await frontier.journals(name))
    heads = await asyncio.to_thread(heads_at, commits, owner, positions)
    for text, part in parts.items():
        its = heads.get(text, {})
        await asyncio.to_thread(conclude, part.store, owner, listed[text], its, job.finished_at)
    await asyncio.to_thread(remove, commits, old_commits(old, owner, positions))


async def _ended(frontier: Frontier, name: str, owner: Owner | None) -> Job | None:
    job = await frontier.job(name)
    if job is None or owner is None or job.created_at != owner.created_at:
        return None
    return job if job.state in ("finished", "cancelled") and not job.counters.leased else None


async def is_listed(job: Job, journal: Journal | None) -> bool:
    """Whether the parts of a job that has ended are listed, as far as a glance can tell."""
    one = journal
    if isinstance(journal, SeveralObjects):
        one = next(iter(journal.parts()), None)
    if not isinstance(one, ObjectParts | SpooledObjects):
        return True
    manifest = await asyncio.to_thread(read_manifest, one.store)
    return manifest is not None and manifest.finished_at >= job.finished_at

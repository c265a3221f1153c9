"""Runs the hooks at the start and the end of a job.

Of the processes that work on a job, one runs its hooks: it takes the lead in that (`jobs/leader.py`), and notes in the
store that they have run. If it dies before that, another runs them again.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from shoal.engine.process_hooks import ProcessHooks, time_of
from shoal.errors import JobHookError
from shoal.frontier.protocol import Notes
from shoal.frontier.values import Job
from shoal.jobs.hook_note import HookNote, hook_lead_key, read_hook_note, write_hook_note
from shoal.jobs.leader import Leadership
from shoal.jobs.note import note_of
from shoal.jobs.state import StoredState
from shoal.model.counts import without_costs
from shoal.settings import Settings
from shoal.sink import describe_noted
from shoal.spider.hook_calls import HookFailed, call_alone
from shoal.spider.hooks import Hooks, JobSummary
from shoal.spider.spider import Spider
from shoal.spider.state import state_of

_FIRST, _LATER = 0.05, 1.0  # seconds between looks at what another process does: more and more
_LONGEST_LEASE = 15.0


class JobHooks:
    """The hooks at the start and the end of one job."""

    def __init__(self, notes: Notes, hooks: Hooks, settings: Settings) -> None:
        self._notes = notes
        self._hooks = hooks
        self._settings = settings

    async def start(self, job: Job) -> None:
        """Returns when they have run, here or in another process. Raises JobHookError if one fails."""
        hooks = self._hooks
        if not hooks.on_job_start and not hooks.on_job_end:
            return

        async def run() -> None:
            with state_of(self._state(job)):
                for hook in hooks.on_job_start:
                    await call_alone(hook, _summary(job), time=time_of(self._settings))
            await write_hook_note(self._notes, job)

        await self._once(job, lambda note: note.started, run)

    async def end(self, job: Job) -> None:
        """The same for a job that is finished."""
        if not await self.is_due(job):
            return

        async def run() -> None:
            with state_of(self._state(job)):
                for hook in self._hooks.on_job_end:
                    await call_alone(hook, _summary(job), time=time_of(self._settings))
            await write_hook_note(self._notes, job, ended=job.finished_at)

        await self._once(job, lambda note: note.ended >= job.finished_at, run)

    def _state(self, job: Job) -> StoredState:
        """`spider.state`, in hooks."""
        return StoredState(self._notes, job.spec.name, lambda: job.created_at)

    async def is_due(self, job: Job) -> bool:
        """Whether `on_job_end` has not run. It runs for jobs that began with these hooks, and not for older ones."""
        if job.state != "finished" or not self._hooks.on_job_end:
            return False
        note = await read_hook_note(self._notes, job)
        return note.started and note.ended < job.finished_at

    async def _once(
        self, job: Job, has_run: Callable[[HookNote], bool], run: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        async def duties() -> None:
            if not has_run(await read_hook_note(self._notes, job)):
                await run()
            await asyncio.Event().wait()  # until `_once` has seen it

        if has_run(await read_hook_note(self._notes, job)):
            return
        name, lease = f"{os.getpid()}-{uuid.uuid4().hex[:8]}", min(_LONGEST_LEASE, self._settings.lease)
        leadership = Leadership(self._notes, name, lease, hook_lead_key(job.spec.name))
        leading, pause = asyncio.create_task(leadership.lead(duties)), _FIRST
        try:
            while not leading.done() and not has_run(await read_hook_note(self._notes, job)):
                await asyncio.wait([leading], timeout=pause)
                pause = min(pause * 1.3, _LATER)
            if leading.done():
                leading.result()
        except HookFailed as error:
            raise JobHookError(str(error)) from error
        finally:
            leading.cancel()
            await asyncio.wait([leading])


def may_have_hooks(spider: Spider) -> bool:
    return bool(spider.hooks or spider.plugins or spider.settings.get("plugins"))


async def end_missed(
    notes: Notes, job: Job, process: ProcessHooks, spider: Spider, settings: Settings
) -> None:
    """Runs `on_job_end` of a job that is finished, if the process that was to run it died before."""
    hooks = process.of(spider, settings)
    ending = JobHooks(notes, hooks, settings)
    if await ending.is_due(job):
        await process.start(hooks, settings)
        await ending.end(job)


def _summary(job: Job) -> JobSummary:
    c = job.counters
    return JobSummary(
        name=job.spec.name,
        spider=job.spec.spider,
        state=job.state,
        done=c.done,
        dead=c.dead,
        rows=c.items,
        retried=c.retried,
        left=c.open,
        seconds=max(0.0, job.finished_at - job.created_at),
        output=describe_noted(note_of(job.spec).output),
        counts=without_costs(job.counts),
    )

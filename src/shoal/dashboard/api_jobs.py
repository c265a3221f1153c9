"""Decisions about jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from shoal.dashboard.context import Board, log
from shoal.dashboard.responses import Refusal, read_json
from shoal.errors import UsageError
from shoal.jobs.schedule import schedules
from shoal.runtime.job_actions import cancel, pause, resume

if TYPE_CHECKING:
    from starlette.requests import Request


class JobOrder(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["pause", "resume", "cancel"]


async def decide(board: Board, request: Request) -> object:
    wanted, name = await read_json(request, JobOrder), request.path_params["name"]
    scheduled = name in await schedules(board.frontier)
    if not scheduled and await board.frontier.job(name) is None:
        raise Refusal(404, f"no job {name} in this store")
    try:
        said = await {"pause": pause, "resume": resume, "cancel": cancel}[wanted.action](board.frontier, name)
    except UsageError as error:
        raise Refusal(409, str(error)) from None
    log.info("dashboard: %s", said)
    job = None if scheduled else await board.frontier.job(name)
    return {"job": name, "state": job.state if job is not None else "scheduled", "said": said}

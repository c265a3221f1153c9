"""Hosts: the list from memory, one of them fresh from the store, and decisions about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from shoal.dashboard.context import Board, log
from shoal.dashboard.hostindex import SORTS, HostIndex, HostRow, Query
from shoal.dashboard.json_shapes import host_dict
from shoal.dashboard.responses import Refusal, read_json, whole, word
from shoal.frontier.values import DeadFilter
from shoal.inspect.host import CONDITIONS
from shoal.inspect.host_actions import Order, block, order, set_for_hosts, unblock
from shoal.inspect.inquiry import chosen_jobs, look_at_host

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST = 500  # hosts on one page
_PATIENCE = 0.2  # seconds that a list waits for the first walk over the hosts
_BURIED_COUNTED = 1_000


class HostOrder(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["block", "unblock", "set"]
    reason: Annotated[str, Meta(max_length=500)] = ""
    seconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None  # None: until it is unblocked
    rate: Annotated[float, Meta(ge=0, le=1000000.0)] | UnsetType | None = UNSET  # None takes it back
    per_host: Annotated[int, Meta(ge=1, le=1000000)] | UnsetType | None = UNSET


async def hosts(board: Board, request: Request) -> object:
    job = word(request, "job")
    if job is not None:
        await chosen_jobs(board.frontier, job)  # it must be there
    index = board.indexes.of(job)
    offset, limit = whole(request, "offset", 0), whole(request, "limit", 50, least=1, most=_MOST)
    found = await index.find(_query(request), _PATIENCE)
    return {
        "now": await board.frontier.now(),
        "total": len(found),
        "age": index.age,
        "hosts": [_row_dict(row, index) for row in found[offset : offset + limit]],
    }


def _query(request: Request) -> Query:
    sort, order = word(request, "sort") or "name", word(request, "order") or "asc"
    condition = word(request, "condition") or ""
    if sort not in SORTS:
        raise Refusal(400, f"sort: one of {', '.join(SORTS)}")
    if order not in ("asc", "desc"):
        raise Refusal(400, "order: asc or desc")
    if condition and condition not in CONDITIONS:
        raise Refusal(400, f"condition: one of {', '.join(CONDITIONS)}")
    return Query((word(request, "q") or "").strip().lower(), condition, sort, order == "desc")


def _row_dict(row: HostRow, index: HostIndex) -> dict[str, Any]:
    return {
        "host": row.host,
        "condition": row.condition,
        "until": row.until,
        "rate": row.rate,
        "in_flight": row.in_flight,
        "cap": row.cap,
        "latency": row.latency,
        "timeout": row.timeout,
        "pending": row.pending,
        "errors": row.errors,
        "sparkline": index.trail(row.host),
    }


async def host(board: Board, request: Request) -> dict[str, Any]:
    name = request.path_params["host"]
    if await board.frontier.host(name) is None:
        raise Refusal(404, f"no host {name} in this store")
    sight, queues = await look_at_host(board.frontier, name)
    return {**host_dict(sight, queues), "sparkline": board.indexes.of().trail(name)}


async def decide(board: Board, request: Request) -> object:
    wanted, name = await read_json(request, HostOrder), request.path_params["host"]
    if await board.frontier.host(name) is None:
        raise Refusal(404, f"no host {name} in this store")
    if wanted.action == "set":
        await set_for_hosts(board.frontier, name, _limits(wanted))
    else:
        await order(board.frontier, name, await _order_of(board, wanted))
    log.info("dashboard: %s host %s", wanted.action, name)
    shown = await host(board, request)
    if wanted.action == "unblock":
        buried = DeadFilter(host=name, kind="host_down", limit=_BURIED_COUNTED)
        shown["buried"] = len(await board.frontier.dead(buried))
    return shown


async def _order_of(board: Board, wanted: HostOrder) -> Order:
    if wanted.action == "unblock":
        return unblock
    until = None if wanted.seconds is None else await board.frontier.now() + wanted.seconds
    return block(until, wanted.reason)


def _limits(wanted: HostOrder) -> dict[str, object]:
    given = {"rate": wanted.rate, "per_host": wanted.per_host}
    limits: dict[str, object] = {
        key: value for key, value in given.items() if not isinstance(value, UnsetType)
    }
    if not limits:
        raise Refusal(400, "say what to set: rate or per_host; null takes it back")
    return limits

"""The JSON API: each function answers one route of `app.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from shoal import __version__
from shoal.admit.sending import typed_url
from shoal.dashboard.board import Board, log
from shoal.dashboard.responses import Refusal, number, read_json, whole, word
from shoal.dashboard.stream import StreamReply
from shoal.engine.history import History
from shoal.engine.history_recorder import read_history
from shoal.engine.recent import read_recent
from shoal.errors import UsageError
from shoal.frontier import is_local
from shoal.frontier.values import DeadFilter
from shoal.inspect.actions import (
    Order,
    block,
    drop_letters,
    order,
    replay_letters,
    set_for_hosts,
    unblock,
)
from shoal.inspect.event_log import KEPT, read_events
from shoal.inspect.freshness_form import freshness_page
from shoal.inspect.host import CONDITIONS
from shoal.inspect.json_form import (
    answer_dict,
    errors_dict,
    flight_dict,
    history_dict,
    host_dict,
    job_dict,
    letter_dict,
    pool_dicts,
    worker_dicts,
)
from shoal.inspect.lookup import chosen_jobs, find_hosts, look_at_host, look_at_proxies, look_at_uses
from shoal.inspect.overview import JobView, PageInFlight, look_at_flights
from shoal.inspect.rejected import rejected_query
from shoal.inspect.rows import recent_dict
from shoal.inspect.why import answers_about
from shoal.jobs.schedule import schedules
from shoal.model import REJECTED
from shoal.runtime.job_actions import cancel, pause, resume

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST_JOBS = 50  # whose errors are shown together
_MOST_FLIGHTS = 500
_MOST_HOSTS = 500  # on one page
_MOST_LETTERS = 500
_MOST_IDS = 10_000
_MOST_URL = 8_000  # characters
_BURIED_COUNTED = 1_000
_NUMBER = re.compile("[0-9]{1,18}")
_PLACE_IN_FILE = re.compile("[0-9]{1,18}")
_PLACE_ON_SERVER = re.compile("[0-9]{1,18}:([0-9]{1,20})")  # a shard, and a cursor of its server
_MOST_CURSOR = 1 << 64


# -- what can be seen


async def session(board: Board, request: Request) -> object:
    found = board.session_of(request)
    assert found is not None
    return {
        "read_only": board.read_only,
        "csrf": found.csrf,
        "store": board.store,
        "version": __version__,
    }


async def overview(board: Board, request: Request) -> object:
    return await board.sampler.shape(await board.sampler.overview())


async def live(board: Board, request: Request) -> object:
    return {"points": list(board.sampler.samples)}


async def stream(board: Board, request: Request) -> object:
    found = board.session_of(request)
    assert found is not None
    greeting = await board.sampler.greeting()
    viewer = board.hub.enter(greeting, lambda: board.sessions.find(found.id) is not None)
    return StreamReply(board.hub, viewer)


async def history(board: Board, request: Request) -> object:
    name = word(request, "job")
    jobs = await chosen_jobs(board.frontier, name)
    if not jobs:
        return {"job": None, **history_dict(History())}
    job = jobs[0].spec.name
    return {"job": job, **history_dict(await read_history(board.frontier, job))}


async def errors(board: Board, request: Request) -> object:
    past = History()
    for job in (await chosen_jobs(board.frontier, word(request, "job")))[:_MOST_JOBS]:
        past = past.merged(await read_history(board.frontier, job.spec.name))
    return errors_dict(past)


async def freshness(board: Board, request: Request) -> object:
    """Of one standing job: that which is asked for, or the newest."""
    jobs = [one.job for one in (await board.sampler.overview()).jobs]
    return await freshness_page(board.frontier, jobs, word(request, "job"))


async def workers(board: Board, request: Request) -> object:
    now = await board.frontier.now()
    return {"now": now, "workers": worker_dicts(await board.frontier.workers(), now)}


async def flights(board: Board, request: Request) -> object:
    """The pages that have been in flight longest, sorted as the request says."""
    limit = whole(request, "limit", 50, least=1, most=_MOST_FLIGHTS)
    sort = word(request, "sort") or "seconds"
    if sort not in PageInFlight.__struct_fields__:
        raise Refusal(400, f"sort: one of {', '.join(PageInFlight.__struct_fields__)}")
    found = await look_at_flights(board.frontier, limit, word(request, "job"))
    downward = (word(request, "order") or ("desc" if sort == "seconds" else "asc")) == "desc"
    ordered = sorted(found, key=lambda one: getattr(one, sort), reverse=downward)
    return {"now": await board.frontier.now(), "flights": [flight_dict(one) for one in ordered]}


async def proxies(board: Board, request: Request) -> object:
    return {
        "now": await board.frontier.now(),
        "pools": pool_dicts(await look_at_proxies(board.frontier), await look_at_uses(board.frontier)),
    }


async def why(board: Board, request: Request) -> object:
    typed = word(request, "url")
    if typed is None or len(typed) > _MOST_URL:
        raise Refusal(400, "url: the page that is asked about")
    answers = await answers_about(board.frontier, typed_url(typed), word(request, "job"))
    return {"answers": [answer_dict(answer) for answer in answers]}


async def events(board: Board, request: Request) -> object:
    limit = whole(request, "limit", 100, least=1, most=KEPT)
    return {"events": (await read_events(board.frontier))[-limit:]}


# -- jobs


async def job(board: Board, request: Request) -> object:
    """One job, with its newest rows and latest pages."""
    name = request.path_params["name"]
    found = await board.frontier.job(name)
    if found is None:
        raise Refusal(404, f"no job {name} in this store")
    views = (await board.sampler.overview()).jobs
    view = next((one for one in views if one.job.spec.name == name), JobView(found))
    recent = recent_dict(await read_recent(board.frontier, name))
    now = await board.frontier.now()
    return {"now": now, "job": job_dict(view, now), **recent}


class JobOrder(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["pause", "resume", "cancel"]


async def decide_job(board: Board, request: Request) -> object:
    wanted, name = await read_json(request, JobOrder), request.path_params["name"]
    if name not in await schedules(board.frontier) and await board.frontier.job(name) is None:
        raise Refusal(404, f"no job {name} in this store")
    try:
        said = await {"pause": pause, "resume": resume, "cancel": cancel}[wanted.action](board.frontier, name)
    except UsageError as error:
        raise Refusal(409, str(error)) from None
    log.info("dashboard: %s", said)
    job = await board.frontier.job(name)
    return {"job": name, "state": job.state if job is not None else "scheduled", "said": said}


# -- hosts


class HostOrder(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["block", "unblock", "set"]
    reason: Annotated[str, Meta(max_length=500)] = ""
    seconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None  # None: until it is unblocked
    rate: Annotated[float, Meta(ge=0, le=1000000.0)] | UnsetType | None = UNSET  # None takes it back
    per_host: Annotated[int, Meta(ge=1, le=1000000)] | UnsetType | None = UNSET


async def hosts(board: Board, request: Request) -> object:
    condition = word(request, "condition") or ""
    if condition and condition not in CONDITIONS:
        raise Refusal(400, f"condition: one of {', '.join(CONDITIONS)}")
    after = word(request, "after") or ""
    if after and not _is_place(after, board.store):
        raise Refusal(400, "after: what the page before said")
    found = await find_hosts(
        board.frontier,
        word(request, "job"),
        part=(word(request, "q") or "").strip().lower(),
        condition=condition,
        after=after,
        limit=whole(request, "limit", 50, least=1, most=_MOST_HOSTS),
    )
    return {"now": found.now, "hosts": [host_dict(one) for one in found.hosts], "after": found.after or None}


def _is_place(after: str, store: str) -> bool:
    """Whether the store may have said it. Other words would be errors of the store."""
    if is_local(store):
        return _PLACE_IN_FILE.fullmatch(after) is not None
    found = _PLACE_ON_SERVER.fullmatch(after)
    return found is not None and int(found[1]) < _MOST_CURSOR


async def host(board: Board, request: Request) -> dict[str, Any]:
    name = request.path_params["host"]
    if await board.frontier.host(name) is None:
        raise Refusal(404, f"no host {name} in this store")
    view, queues = await look_at_host(board.frontier, name)
    return {"now": view.now, **host_dict(view), "queues": queues}


async def decide_host(board: Board, request: Request) -> object:
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


# -- dead letters


class Which(Struct, frozen=True, forbid_unknown_fields=True):
    job: str | None = None
    host: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None

    def query(self) -> DeadFilter:
        query = DeadFilter(self.job or None, self.host or None, self.kind or None, self.since, self.until)
        return rejected_query(query) if query.kind == REJECTED else query


class LetterOrder(Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["replay", "drop"]
    ids: Annotated[list[int], Meta(max_length=_MOST_IDS)] | None = None
    filter: Which | None = None
    all: bool = False  # a filter that lets everything through is meant

    def query(self) -> DeadFilter:
        if (self.ids is None) == (self.filter is None):
            raise Refusal(400, "say which: ids, or a filter")
        if self.filter is None:
            return DeadFilter(ids=tuple(self.ids or ()))
        query = self.filter.query()
        if query == DeadFilter() and not self.all:
            raise Refusal(400, "an empty filter means all dead letters: say so with all")
        return query


async def dead(board: Board, request: Request) -> object:
    since, until = number(request, "since", 0.0), number(request, "until", 0.0)
    which = Which(
        word(request, "job"), word(request, "host"), word(request, "kind"), since or None, until or None
    )
    limit = whole(request, "limit", 50, least=1, most=_MOST_LETTERS)
    query = replace(which.query(), before=_letter(word(request, "before")), limit=limit + 1)
    found = await board.frontier.dead(query)
    page = found[:limit]
    return {
        "now": await board.frontier.now(),
        "letters": [letter_dict(one, response=False) for one in page],
        "before": f"{page[-1].at!r}-{page[-1].task.id}" if len(found) > limit else None,
    }


def _letter(before: str | None) -> tuple[float, int] | None:
    """The time and number of the letter that ended the page before."""
    at, _, id = (before or "").partition("-")
    if before is None:
        return None
    try:
        return float(at), int(id)
    except ValueError:
        raise Refusal(400, "before: what the page before said") from None


async def letter(board: Board, request: Request) -> object:
    id = request.path_params["id"]
    if not _NUMBER.fullmatch(id):
        raise Refusal(404, "no dead letter has that number")
    pages = DeadFilter(ids=(int(id),))
    found = await board.frontier.dead(pages) or await board.frontier.dead(replace(pages, kind=REJECTED))
    if not found:
        raise Refusal(404, f"no dead letter {id} in this store: it may have been replayed or dropped")
    return letter_dict(found[0])


async def decide_letters(board: Board, request: Request) -> object:
    asked = await read_json(request, LetterOrder)
    do = replay_letters if asked.action == "replay" else drop_letters
    query = asked.query()
    count = await do(board.frontier, query, "dashboard")
    if query.ids is not None:  # a rejected item is found by its kind only
        count += await do(board.frontier, replace(query, kind=REJECTED), "dashboard")
    log.info("dashboard: %s %d dead letters", asked.action, count)
    return {"count": count}

"""What can be looked at: the whole, its past, its workers, proxies, errors and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal import __version__
from shoal.admit.sending import typed_url
from shoal.dashboard.context import Board
from shoal.dashboard.json_shapes import errors_dict, history_dict, pool_rows, worker_rows
from shoal.dashboard.responses import Refusal, whole, word
from shoal.dashboard.stream import StreamReply
from shoal.engine.history import History
from shoal.engine.history_recorder import read_history
from shoal.inspect.event_log import KEPT, read_events
from shoal.inspect.in_flight import PageInFlight, look_at_flights
from shoal.inspect.inquiry import answers_about, chosen_jobs, look_at_proxies
from shoal.inspect.json_form import answer_dict, flight_dict

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST_JOBS = 50  # whose errors are shown together
_MOST_FLIGHTS = 500
_MOST_URL = 8_000  # characters


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
    return board.sampler.shape(await board.sampler.overview())


async def live(board: Board, request: Request) -> object:
    return {"points": list(board.sampler.samples)}


async def stream(board: Board, request: Request) -> object:
    found = board.session_of(request)
    assert found is not None
    viewer = board.hub.enter(board.sampler.greeting(), lambda: board.sessions.find(found.id) is not None)
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


async def workers(board: Board, request: Request) -> object:
    now = await board.frontier.now()
    return {"now": now, "workers": worker_rows(await board.frontier.workers(), now)}


async def flights(board: Board, request: Request) -> object:
    """Of those that have taken longest so many, in the order that is asked for."""
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
        "pools": pool_rows(await look_at_proxies(board.frontier)),
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

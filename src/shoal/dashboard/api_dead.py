"""Dead letters: the newest of them, one in full, and what is to become of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from shoal.dashboard.context import Board, log
from shoal.dashboard.dead_letters import letter_dict
from shoal.dashboard.responses import Refusal, number, read_json, whole, word
from shoal.frontier.values import DeadFilter
from shoal.inspect import dead_letters

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST = 500  # letters on one page
_MOST_IDS = 10_000
_NUMBER = re.compile("[0-9]{1,18}")


class Which(Struct, frozen=True, forbid_unknown_fields=True):
    job: str | None = None
    host: str | None = None
    kind: str | None = None
    since: float | None = None
    until: float | None = None

    def query(self) -> DeadFilter:
        return DeadFilter(self.job or None, self.host or None, self.kind or None, self.since, self.until)


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
    offset, limit = whole(request, "offset", 0), whole(request, "limit", 50, least=1, most=_MOST)
    now = await board.frontier.now()
    heads, more = await board.shelf.newest(which.query(), now)
    return {"now": now, "total": len(heads), "more": more, "letters": heads[offset : offset + limit]}


async def letter(board: Board, request: Request) -> object:
    id = request.path_params["id"]
    if not _NUMBER.fullmatch(id):
        raise Refusal(404, "no dead letter has that number")
    found = await board.frontier.dead(DeadFilter(ids=(int(id),)))
    if not found:
        raise Refusal(404, f"no dead letter {id} in this store: it may have been replayed or dropped")
    return letter_dict(found[0])


async def decide(board: Board, request: Request) -> object:
    wanted = await read_json(request, LetterOrder)
    do = dead_letters.replay if wanted.action == "replay" else dead_letters.drop
    count = await do(board.frontier, wanted.query(), "dashboard")
    board.shelf.forget()
    log.info("dashboard: %s %d dead letters", wanted.action, count)
    return {"count": count}

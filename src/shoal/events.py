"""Telling what happened: in the log, under a stable name and with fields, and to whoever keeps events.

`event("breaker_opened", host=…, reason=…)` may be said anywhere. Which names there are is in `vocabulary.py`; who
listens is in `inspect/event_log.py`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

from shoal.hints import at_store
from shoal.text import one_line
from shoal.vocabulary import VOCABULARY, Level

log = logging.getLogger("shoal")

LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

Field = str | int | float | bool | None


class Event(Struct, frozen=True):
    event: str  # a name in the vocabulary
    level: Level
    message: str  # for people
    fields: dict[str, Field]
    at: float = 0.0  # the frontier's time
    id: int = 0  # grows by one with every event of a store


class Listener(Protocol):
    def wants(self, name: str) -> bool:
        """Asked before the event is made, for some come in thousands."""
        ...

    def take(self, made: Event) -> None: ...


# Of this task, and of those that it begins: two crawls in one process each have their own.
listener: ContextVar[Listener | None] = ContextVar("shoal-events", default=None)


def event(name: str, message: str = "", /, *, exc_info: bool = False, **fields: Field) -> None:
    """Tells that something happened. `message` stands in for the usual sentence where that does not fit."""
    level, who = LEVELS[VOCABULARY[name].level], listener.get()
    wanted = who is not None and who.wants(name)
    if not wanted and not log.isEnabledFor(level):
        return
    told = made(name, message, fields)
    log.log(level, "%s", told.message, exc_info=exc_info, extra={"event": name, "fields": told.fields})
    if wanted and who is not None:
        who.take(told)


def made(name: str, message: str, fields: dict[str, Field]) -> Event:
    kind = VOCABULARY[name]
    clean = {key: one_line(value) if isinstance(value, str) else value for key, value in fields.items()}
    return Event(
        name,
        kind.level,
        one_line(message or kind.sentence.format_map({**clean, "at": at_store.get()})),
        clean,
    )

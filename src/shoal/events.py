"""Events: what happened, in the log and for a listener, under a stable name and with fields.

`event("breaker_opened", host=…, reason=…)` may be called anywhere. The table `EVENTS` has every event: its name, level,
fields and sentence. Names and fields are stable, because programs read them; docs/events.md has the same table, with
the meaning of each event. `inspect/event_log.py` has the listener that stores events.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from types import TracebackType
from typing import Literal, Protocol

from msgspec import Struct

from shoal.text import at_store, one_line

log = logging.getLogger("shoal")

Level = Literal["debug", "info", "warning", "error"]
LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

Field = str | int | float | bool | None
ExcInfo = tuple[type[BaseException], BaseException, TracebackType]


class Event(Struct, frozen=True):
    event: str  # a name in EVENTS
    level: Level
    message: str  # for people
    fields: dict[str, Field]
    at: float = 0.0  # the frontier's time
    id: int = 0  # grows by one with every event of a store


class Listener(Protocol):
    def wants(self, name: str) -> bool:
        """Called before the event is made, because some come in thousands."""
        ...

    def take(self, made: Event) -> None: ...


# Of the current task and the tasks it starts: two crawls in one process each have their own.
listener: ContextVar[Listener | None] = ContextVar("shoal-events", default=None)


def event(name: str, message: str = "", /, *, exc_info: bool | ExcInfo = False, **fields: Field) -> None:
    """Emits an event. `message` replaces the sentence of the table. `exc_info`: a traceback for the log."""
    level, who = LEVELS[EVENTS[name].level], listener.get()
    wanted = who is not None and who.wants(name)
    if not wanted and not log.isEnabledFor(level):
        return
    told = made(name, message, fields)
    log.log(level, "%s", told.message, exc_info=exc_info, extra={"event": name, "fields": told.fields})
    if wanted and who is not None:
        who.take(told)


def made(name: str, message: str, fields: dict[str, Field]) -> Event:
    kind = EVENTS[name]
    clean = {key: one_line(value) if isinstance(value, str) else value for key, value in fields.items()}
    return Event(
        name,
        kind.level,
        one_line(message or kind.sentence.format_map({**clean, "at": at_store.get()})),
        clean,
    )


class Kind(Struct, frozen=True):
    level: Level
    fields: tuple[str, ...]  # any of them may be missing
    sentence: str  # for people, with fields in braces


def _kind(level: Level, fields: str, sentence: str) -> Kind:
    return Kind(level, tuple(fields.split()), sentence)


EVENTS: dict[str, Kind] = {
    # -- jobs
    "job_submitted": _kind("info", "job spider", "job {job} is submitted"),
    "urls_added": _kind("info", "job new refused", "{new} URLs were added to job {job}"),
    "job_started": _kind("info", "job spider done", "job {job} starts"),
    "job_finished": _kind(
        "info", "job done dead rejected left rows retried seconds output", "job {job} is finished"
    ),
    "job_stopped": _kind(
        "info", "job done dead rejected rows left", "job {job} is stopped, {left} pages are left"
    ),
    "cache_opened": _kind(
        "info", "job folder answers", "job {job} does not fetch what {folder} has: {answers} answers"
    ),
    "job_paused": _kind("info", "job", "job {job} is paused"),
    "job_resumed": _kind("info", "job", "job {job} goes on"),
    "job_cancelled": _kind("info", "job left", "job {job} is cancelled"),
    "job_forgotten": _kind("info", "job", "job {job} is forgotten"),
    "job_pruned": _kind("info", "job done dead", "job {job} is pruned: {done} pages, {dead} dead letters"),
    "job_anew": _kind(
        "warning",
        "job",
        "job {job} starts from the beginning: it was pruned, and with it the memory of what it had seen",
    ),
    "job_in_trouble": _kind(
        "error",
        "job reason",
        "job {job} is paused: {reason}; put it right and run: shoal resume {job}{at}",
    ),
    "job_stuck": _kind("warning", "job reason", "{reason}"),
    "dedupe_grows": _kind(
        "warning",
        "job seen capacity",
        "job {job} has met {seen} URLs, more than dedupe_capacity = {capacity}: its filter grows, and up to "
        "1 in 1,000 new URLs is taken for known; give the next job a larger one",
    ),
    "job_served": _kind("info", "job", "serving job {job}"),
    "job_retired": _kind("info", "job", "no longer serving job {job}"),
    "job_set_aside": _kind(
        "error",
        "job seconds reason",
        "job {job} is set aside for {seconds:.0f} s: {reason}",
    ),
    "feeding_started": _kind("info", "job", "feeding job {job}"),
    "feeding_waits": _kind(
        "info",
        "job fed pending",
        "feeding job {job} waits after {fed} start URLs: {pending} pages are queued",
    ),
    "feeding_goes_on": _kind(
        "info",
        "job pending mark",
        "feeding job {job} goes on until {mark} pages are queued: {pending} are, but they leave most slots idle",
    ),
    "feeding_failed": _kind("warning", "job reason", "feeding job {job} is tried again: {reason}"),
    "start_refused": _kind("warning", "job where url reason", "{where}: {url} is not crawled: {reason}"),
    # -- schedules
    "schedule_set": _kind("info", "schedule every cron", "schedule {schedule} is set"),
    "schedule_ran": _kind("info", "job", "job {job} is due and starts"),
    "schedule_paused": _kind("info", "schedule", "schedule {schedule} is paused"),
    "schedule_resumed": _kind("info", "schedule", "schedule {schedule} goes on"),
    "schedule_removed": _kind("info", "schedule", "schedule {schedule} is taken back"),
    # -- workers
    "worker_started": _kind("info", "role spiders store", "{role} for {spiders} on {store}"),
    "worker_stopped": _kind("info", "role", "{role} ends"),
    "other_version": _kind(
        "warning",
        "version other workers",
        "this is Shoal {version}; workers of version {other} on the same store: {workers}",
    ),
    "slots_limited": _kind(
        "warning",
        "limit slots wanted",
        "ulimit -n is {limit}: {slots} requests at once instead of {wanted}; raise it for more",
    ),
    "worker_hung": _kind(
        "warning",
        "worker seconds where",
        "worker {worker} hung for {seconds:.0f} s {where}: it was ended and is started again",
    ),
    "worker_died": _kind(
        "warning",
        "worker exit reason",
        "worker {worker} died (exit {exit}), starting it again",
    ),
    "draining": _kind("warning", "", "stopping"),
    "leader_changed": _kind("info", "worker", "this process coordinates from now on"),
    "leader_missing": _kind(
        "warning",
        "",
        "no coordinator: start URLs are not fed, recurring jobs not started and jobs not finished until "
        "there is one (shoal coordinator FILE.py{at}, or a worker without --no-coordinator)",
    ),
    "leader_found": _kind("info", "worker", "there is a coordinator: {worker}"),
    "lead_lost": _kind("warning", "matter reason", "{matter} is given up: {reason}"),
    "coordinating_failed": _kind("warning", "reason", "coordinating is tried again: {reason}"),
    # -- hosts
    "breaker_opened": _kind(
        "warning",
        "host origin reason seconds",
        "host {host} is cooling down: {reason}",
    ),
    "breaker_closed": _kind("info", "host origin", "host {host} is healthy again"),
    "host_given_up": _kind("warning", "host origin reason seconds", "host {host} is given up: {reason}"),
    "host_blocked": _kind("info", "host reason until", "host {host} is blocked"),
    "host_unblocked": _kind("info", "host", "host {host} is no longer blocked"),
    "host_limits_set": _kind("info", "host rate per_host timeout pool robots lane", "{host} is set by hand"),
    # -- sessions
    "session_logged_in": _kind("info", "job session", "session {session} of job {job} is logged in"),
    "session_logged_out": _kind(
        "info", "job session url", "session {session} of job {job} was logged out, and logs in again: {url}"
    ),
    "session_login_failed": _kind(
        "warning",
        "job session failures reason",
        "session {session} of job {job} could not log in, and tries again: {reason}",
    ),
    "session_given_up": _kind(
        "error",
        "job session failures reason",
        "session {session} of job {job} could not log in {failures} times and is given up: {reason}; put it right,"
        " queue dead pages again with shoal dead replay --kind login_failed{at}, and run the job again",
    ),
    # -- pages
    "page_settled": _kind(
        "debug", "job url handler status seconds size items rejected links new", "{url}: {status}"
    ),
    "page_dead": _kind("debug", "job url host handler kind detail attempts", "{url} is given up: {kind}"),
    "page_cut": _kind(
        "warning",
        "job url host kept size",
        "only {kept} of the {size} bytes of {url} are parsed: the rest would take too long",
    ),
    "page_truncated": _kind(
        "warning",
        "job url host",
        "{url} ends in the middle of a character: it is not whole",
    ),
    "links_cut": _kind(
        "warning",
        "job url host taken cut",
        "{url} has more links than max_links = {taken}: {cut} were not taken",
    ),
    "validators_distrusted": _kind(
        "warning",
        "host reason",
        "{host}: {reason}; its ETag and Last-Modified are not sent back any more",
    ),
    "counters_full": _kind(
        "warning",
        "job names",
        "the spider of job {job} counts under more than {names} names: further ones are added up as (other)",
    ),
    "items_rejected": _kind(
        "debug", "job url handler count reason", "{count} items of {url} are rejected: {reason}"
    ),
    "letters_replayed": _kind("info", "count job host kind by", "dead letters queued again: {count}"),
    "letters_dropped": _kind("info", "count job host kind by", "dead letters dropped: {count}"),
    "handler_failed": _kind(
        "warning",
        "job url handler error where traceback",
        "handler {handler!r} failed on {url}: {error}",
    ),
    "hook_failed": _kind("warning", "job url error traceback", "{error}, on {url}"),
    "job_hook_failed": _kind("error", "job error", "job {job}: {error}"),
    "process_hook_failed": _kind("error", "error", "{error}"),
    "webhook_failed": _kind("warning", "job webhook error", "a delivery failed, and is tried again: {error}"),
    "webhook_recovered": _kind("info", "job webhook", "{webhook} takes deliveries again"),
    "webhook_dead": _kind(
        "error",
        "job url webhook error",
        "a delivery about {url} is given up: {error}; it is a dead letter of the kind webhook, which can be replayed",
    ),
    "output_unfinished": _kind(
        "error",
        "job error",
        "job {job} has ended, but its output is not complete yet: {error}",
    ),
    "letters_not_told": _kind(
        "warning",
        "count",
        "on_dead_letter hooks were not told of {count} dead letters: they take too long; see all: shoal dead list{at}",
    ),
    "handler_blocks": _kind(
        "warning",
        "where",
        "handler {where} blocks the event loop: use async calls, or do less at once",
    ),
    "breakpoint_passed": _kind(
        "warning", "where why", "breakpoint() in {where} is passed over: {why} (told once)"
    ),
    "handler_interrupted": _kind(
        "warning",
        "where seconds",
        "interrupting handler {where} after {seconds:.0f} s",
    ),
    "settlement_stale": _kind(
        "warning",
        "job url host",
        "{url} was settled too late: its lease had been given away",
    ),
    "lease_lapsed": _kind(
        "warning",
        "job url host",
        "{url} is dropped: its lease could not be renewed in time",
    ),
    "check_failed": _kind(
        "warning",
        "where error",
        "challenge_check: {where} and is taken to see nothing: {error}",
    ),
    # -- holding back
    "backpressure_on": _kind("warning", "rule reason", "backpressure {rule} on: {reason}"),
    "backpressure_off": _kind("warning", "rule reason", "backpressure {rule} off: {reason}"),
    "pool_exhausted": _kind("warning", "pool host reason", "{reason}"),
    "pool_back": _kind("warning", "pool host", "pool {pool} works again"),
    # -- browsers
    "browser_started": _kind("info", "pid path", "a browser is started"),
    "browser_recycled": _kind("info", "pid reason pages", "a browser ends: {reason}"),
    "browser_lost": _kind("warning", "pid reason", "a browser is lost: {reason}"),
    "escalation_learned": _kind(
        "info",
        "host pattern reason",
        "pages of {host} like {pattern} go to the browser: {reason}",
    ),
    "escalation_given_back": _kind(
        "info",
        "host pattern",
        "pages of {host} like {pattern} are fetched without a browser again",
    ),
    # -- what handlers yield
    "quality_alarm": _kind("warning", "host handler field kind reason", "{host}: {reason}"),
    "quality_ended": _kind(
        "info",
        "host handler field",
        "{host}: {field} of handler {handler} is as it was, or accepted as it is",
    ),
    # -- store and results
    "store_awaited": _kind(
        "warning",
        "store reason",
        "the store at {store} does not answer yet ({reason}), waiting for it",
    ),
    "store_lost": _kind("warning", "store reason", "lost the store at {store} ({reason}), waiting"),
    "store_back": _kind("warning", "store seconds", "the store at {store} is back after {seconds:.1f} s"),
    "store_went_back": _kind(
        "warning",
        "store kept lost again",
        "the store was started anew or has failed over: of the pages in hand {kept} go on, {lost} are not "
        "known to it any more, and {again} that were done are fetched again",
    ),
    "settlements_wait": _kind(
        "warning",
        "job pages",
        "the store is full: {pages} finished pages of job {job} wait until there is room",
    ),
    "store_syncs_late": _kind(
        "warning",
        "store policy",
        "the store at {store} answers before its data is on disk (appendfsync {policy}): a power cut takes "
        "it back by a second or more, and pages of that time are fetched again (set appendfsync always)",
    ),
    "replicas_late": _kind(
        "warning",
        "store wanted times",
        "the store at {store} had no answer of {wanted} replica(s) within a second, {times} time(s): a "
        "failover now would lose what they lack, and pages would be fetched again (look at INFO "
        "replication)",
    ),
    "store_forgets": _kind(
        "warning",
        "store",
        "the store at {store} keeps no append-only file: a restart of the server forgets what happened "
        "since its last snapshot (set appendonly yes)",
    ),
    "store_upgrading": _kind(
        "warning",
        "store by",
        "the store at {store} is being upgraded by {by}, waiting",
    ),
    "store_upgraded": _kind(
        "warning",
        "store before layout",
        "the store at {store} is upgraded from layout {before} to {layout}: older versions cannot use it "
        "any more",
    ),
    "sink_lost": _kind("warning", "sink reason", "{sink} is away ({reason}); results wait for it"),
    "sink_waits": _kind("warning", "sink reason", "rows for {sink} wait in its spool: {reason}"),
    "column_mixed": _kind(
        "warning",
        "sink column one other",
        "{sink}: column {column} holds values of type {one} and {other}; they are written as text",
    ),
    "sink_back": _kind("warning", "sink seconds", "{sink} is back after {seconds:.1f} s"),
    # -- the program itself
    "progress": _kind(
        "info",
        "job state done admitted rate in_flight pending delayed dead rejected eta waiting followed overdue",
        "job {job}: {done} of {admitted} pages",
    ),
    "variable_unknown": _kind(
        "warning",
        "variable hint",
        "environment: {variable} is not a setting and was passed over; {hint}",
    ),
    "bug": _kind("error", "job url error traceback", "a bug in Shoal, met on {url}"),
    "command_failed": _kind("error", "exit", "the command failed"),
    "log": _kind("info", "worker logger job url handler traceback", ""),
}

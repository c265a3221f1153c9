"""Events: what happened, in the log and for a listener, under a stable name and with fields.

`event("breaker_opened", host=…, reason=…)` may be called anywhere. The table `EVENTS` has every event: its name, level,
meaning, fields and sentence. Names and fields are stable, because programs read them; docs/events.md has the same
table. `inspect/event_log.py` has the listener that stores events.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
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


def event(name: str, message: str = "", /, *, exc_info: bool = False, **fields: Field) -> None:
    """Emits an event. `message` replaces the sentence of the table."""
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
    meaning: str
    fields: tuple[str, ...]  # any of them may be missing
    sentence: str  # for people, with fields in braces


def _kind(level: Level, meaning: str, fields: str, sentence: str) -> Kind:
    return Kind(level, meaning, tuple(fields.split()), sentence)


EVENTS: dict[str, Kind] = {
    # -- jobs
    "job_submitted": _kind("info", "a job was handed to a fleet", "job spider", "job {job} is submitted"),
    "urls_added": _kind(
        "info",
        "somebody put URLs into a job",
        "job new refused",
        "{new} URLs were added to job {job}",
    ),
    "job_started": _kind(
        "info", "a crawl begins, or goes on with what is done", "job spider done", "job {job} starts"
    ),
    "job_finished": _kind(
        "info",
        "the job is through, or has its max_pages and left the others",
        "job done dead left rows retried seconds output",
        "job {job} is finished",
    ),
    "job_stopped": _kind(
        "info",
        "a crawl was stopped before its end; the same command goes on",
        "job done dead rows left",
        "job {job} is stopped, {left} pages are left",
    ),
    "job_paused": _kind("info", "a person paused the job", "job", "job {job} is paused"),
    "job_resumed": _kind("info", "a person let the job go on", "job", "job {job} goes on"),
    "job_cancelled": _kind("info", "a person cancelled the job", "job left", "job {job} is cancelled"),
    "job_forgotten": _kind(
        "info", "the job was dropped with its queue, and its past", "job", "job {job} is forgotten"
    ),
    "job_pruned": _kind(
        "info",
        "a job that ended long ago was forgotten, except for its counters and a short report",
        "job done dead",
        "job {job} is pruned: {done} pages, {dead} dead letters",
    ),
    "job_anew": _kind(
        "warning",
        "a job of that name was pruned, so what it had seen is fetched again",
        "job",
        "job {job} starts from the beginning: it was pruned, and with it the memory of what it had seen",
    ),
    "job_in_trouble": _kind(
        "error",
        "the job cannot go on without a person, and was paused",
        "job reason",
        "job {job} is paused: {reason}; put it right and run: shoal resume {job}{at}",
    ),
    "job_stuck": _kind("warning", "the job has not moved for a minute or more", "job reason", "{reason}"),
    "dedupe_grows": _kind(
        "warning",
        'a job with dedupe = "bloom" has met more URLs than dedupe_capacity, so its filter grows',
        "job seen capacity",
        "job {job} has met {seen} URLs, more than dedupe_capacity = {capacity}: its filter grows, and up to 1 in 1,000 "
        "new URLs is taken for known; give the next job a larger one",
    ),
    "job_served": _kind("info", "a worker serves the job from now on", "job", "serving job {job}"),
    "job_retired": _kind("info", "a worker no longer serves the job", "job", "no longer serving job {job}"),
    "job_set_aside": _kind(
        "error",
        "a worker cannot open the job, or write its rows; tried again later",
        "job seconds reason",
        "job {job} is set aside for {seconds:.0f} s: {reason}",
    ),
    "feeding_started": _kind("info", "a process reads the start URLs of the job", "job", "feeding job {job}"),
    "feeding_waits": _kind(
        "info",
        "the queue of the job is full (high_water), so no more start URLs are read until it is half empty",
        "job fed pending",
        "feeding job {job} waits after {fed} start URLs: {pending} pages are queued",
    ),
    "feeding_failed": _kind(
        "warning",
        "reading start URLs broke off; tried again",
        "job reason",
        "feeding job {job} is tried again: {reason}",
    ),
    "start_refused": _kind(
        "warning",
        "a start URL cannot be crawled; the first 20 are told, all are counted",
        "job where url reason",
        "{where}: {url} is not crawled: {reason}",
    ),
    # -- schedules
    "schedule_set": _kind(
        "info", "a job is to run again and again", "schedule every cron", "schedule {schedule} is set"
    ),
    "schedule_ran": _kind("info", "a recurring job was due", "job", "job {job} is due and starts"),
    "schedule_paused": _kind(
        "info", "a schedule starts no more runs", "schedule", "schedule {schedule} is paused"
    ),
    "schedule_resumed": _kind(
        "info", "a schedule starts runs again", "schedule", "schedule {schedule} goes on"
    ),
    "schedule_removed": _kind(
        "info", "a schedule was taken back", "schedule", "schedule {schedule} is taken back"
    ),
    # -- workers
    "worker_started": _kind(
        "info", "a process of a fleet is there", "role spiders store", "{role} for {spiders} on {store}"
    ),
    "worker_stopped": _kind("info", "a process of a fleet ends", "role", "{role} ends"),
    "other_version": _kind(
        "warning",
        "a process of a fleet begins, and some workers of its store are of another version",
        "version other workers",
        "this is Shoal {version}; workers of version {other} on the same store: {workers}",
    ),
    "slots_limited": _kind(
        "warning",
        "fewer requests at once than `concurrency`, because of the limit on open files",
        "limit slots wanted",
        "ulimit -n is {limit}: {slots} requests at once instead of {wanted}; raise it for more",
    ),
    "worker_hung": _kind(
        "warning",
        "a process that no longer moved was ended, and is started again",
        "worker seconds where",
        "worker {worker} hung for {seconds:.0f} s {where}: it was ended and is started again",
    ),
    "worker_died": _kind(
        "warning",
        "a child process died, and is started again",
        "worker exit reason",
        "worker {worker} died (exit {exit}), starting it again",
    ),
    "draining": _kind("warning", "told to stop: pages in flight are finished", "", "stopping"),
    "leader_changed": _kind(
        "info", "another process coordinates the fleet", "worker", "this process coordinates from now on"
    ),
    "leader_missing": _kind(
        "warning",
        "no process coordinates the fleet, and this worker was told not to",
        "",
        "no coordinator: start URLs are not fed, recurring jobs not started and jobs not finished until there is one"
        " (shoal coordinator FILE.py{at}, or a worker without --no-coordinator)",
    ),
    "leader_found": _kind(
        "info", "a process coordinates the fleet again", "worker", "there is a coordinator: {worker}"
    ),
    "lead_lost": _kind(
        "warning",
        "a process had the lead in a matter and lost it",
        "matter reason",
        "{matter} is given up: {reason}",
    ),
    "coordinating_failed": _kind(
        "warning",
        "a coordinator's duty broke off; tried again",
        "reason",
        "coordinating is tried again: {reason}",
    ),
    # -- hosts
    "breaker_opened": _kind(
        "warning",
        "the host fails, and is left alone for a while",
        "host origin reason seconds",
        "host {host} is cooling down: {reason}",
    ),
    "breaker_closed": _kind("info", "the host answers again", "host origin", "host {host} is healthy again"),
    "host_given_up": _kind(
        "warning",
        "the host failed every probe: its pages are buried until it answers",
        "host origin reason seconds",
        "host {host} is given up: {reason}",
    ),
    "host_blocked": _kind(
        "info", "a person forbade to ask the host", "host reason until", "host {host} is blocked"
    ),
    "host_unblocked": _kind(
        "info", "a person took the block back", "host", "host {host} is no longer blocked"
    ),
    "host_limits_set": _kind(
        "info",
        "a person set what holds at the host, or at all that a pattern stands for",
        "host rate per_host timeout pool robots lane",
        "{host} is set by hand",
    ),
    # -- pages
    "page_dead": _kind(
        "debug",
        "a page was given up; shoal dead show tells more",
        "job url host handler kind detail attempts",
        "{url} is given up: {kind}",
    ),
    "page_cut": _kind(
        "warning",
        "a page would take too long to parse: its end was left out",
        "job url host kept size",
        "only {kept} of the {size} bytes of {url} are parsed: the rest would take too long",
    ),
    "page_truncated": _kind(
        "warning",
        "the body of a page ends in the middle of a character: it was cut off before it was sent, or on its way",
        "job url host",
        "{url} ends in the middle of a character: it is not whole",
    ),
    "links_cut": _kind(
        "warning",
        "a page has more links than max_links: the rest were not taken",
        "job url host taken cut",
        "{url} has more links than max_links = {taken}: {cut} were not taken",
    ),
    "letters_replayed": _kind(
        "info",
        "dead letters went back into the queue, by a person or because their host answers again: those of the job, the "
        "host, the kind, if named",
        "count job host kind by",
        "dead letters queued again: {count}",
    ),
    "letters_dropped": _kind(
        "info",
        "dead letters were dropped: those of the job, the host, the kind, if named; by retention: the old ones",
        "count job host kind by",
        "dead letters dropped: {count}",
    ),
    "handler_failed": _kind(
        "warning",
        "a handler raised an exception",
        "job url handler error",
        "handler {handler!r} failed on {url}: {error}",
    ),
    "handler_blocks": _kind(
        "warning",
        "a handler holds up the event loop",
        "where",
        "handler {where} blocks the event loop: use async calls, or do less at once",
    ),
    "handler_interrupted": _kind(
        "warning",
        "a handler held up the event loop for handler_timeout",
        "where seconds",
        "interrupting handler {where} after {seconds:.0f} s",
    ),
    "settlement_stale": _kind(
        "warning",
        "a page came too late: its lease had run out, and another worker has it",
        "job url host",
        "{url} was settled too late: its lease had been given away",
    ),
    "lease_lapsed": _kind(
        "warning",
        "a page was dropped, to be fetched again: its lease may have run out, for this process was frozen or could not "
        "reach the store",
        "job url host",
        "{url} is dropped: its lease could not be renewed in time",
    ),
    "check_failed": _kind(
        "warning",
        "the function that challenge_check names failed",
        "where error",
        "challenge_check: {where} and is taken to see nothing: {error}",
    ),
    # -- holding back
    "backpressure_on": _kind(
        "warning", "a rule holds the crawl back", "rule reason", "backpressure {rule} on: {reason}"
    ),
    "backpressure_off": _kind(
        "warning", "the rule has let go", "rule reason", "backpressure {rule} off: {reason}"
    ),
    "pool_exhausted": _kind(
        "warning",
        "no proxy of the pool can be used now (for the host, if one is named)",
        "pool host reason",
        "{reason}",
    ),
    "pool_back": _kind("warning", "a proxy of the pool works again", "pool host", "pool {pool} works again"),
    # -- browsers
    "browser_started": _kind("info", "a browser process is there", "pid path", "a browser is started"),
    "browser_recycled": _kind(
        "info",
        "a browser was worn out or not used, and ended",
        "pid reason pages",
        "a browser ends: {reason}",
    ),
    "browser_lost": _kind(
        "warning", "a browser died, or could not be started", "pid reason", "a browser is lost: {reason}"
    ),
    "escalation_learned": _kind(
        "info",
        "pages like this one go to the browser lane from now on",
        "host pattern reason",
        "pages of {host} like {pattern} go to the browser: {reason}",
    ),
    "escalation_given_back": _kind(
        "info",
        "pages like this one no longer need the browser",
        "host pattern",
        "pages of {host} like {pattern} are fetched without a browser again",
    ),
    # -- store and results
    "store_awaited": _kind(
        "warning",
        "a process that lasts was started while the store does not answer; it waits",
        "store reason",
        "the store at {store} does not answer yet ({reason}), waiting for it",
    ),
    "store_lost": _kind(
        "warning",
        "the store does not answer, or is full; all wait for it",
        "store reason",
        "lost the store at {store} ({reason}), waiting",
    ),
    "store_back": _kind(
        "warning",
        "the store answers again",
        "store seconds",
        "the store at {store} is back after {seconds:.1f} s",
    ),
    "store_went_back": _kind(
        "warning",
        "the server was started anew, or another took its place, and may have lost its last second or more; what this"
        " process remembered of it is forgotten, and its pages are compared with the store's: `kept` go on, `lost` end"
        " here because the store does not know of them, `again` were done and are fetched again",
        "store kept lost again",
        "the store was started anew or has failed over: of the pages in hand {kept} go on, {lost} are not known to it"
        " any more, and {again} that were done are fetched again",
    ),
    "settlements_wait": _kind(
        "warning",
        "the store is full: finished pages that bring links or dead letters wait until there is room",
        "job pages",
        "the store is full: {pages} finished pages of job {job} wait until there is room",
    ),
    "store_syncs_late": _kind(
        "warning",
        "the server's append-only file is not on disk when it answers, so a power cut takes it back",
        "store policy",
        "the store at {store} answers before its data is on disk (appendfsync {policy}): a power cut takes it back by a"
        " second or more, and pages of that time are fetched again (set appendfsync always)",
    ),
    "replicas_late": _kind(
        "warning",
        "what was settled or added did not reach the replicas that `?wait=` names within a second; work goes on, and a"
        " failover would take the store back. Told once a minute, with how often it was so",
        "store wanted times",
        "the store at {store} had no answer of {wanted} replica(s) within a second, {times} time(s): a failover now"
        " would lose what they lack, and pages would be fetched again (look at INFO replication)",
    ),
    "store_forgets": _kind(
        "warning",
        "the server keeps no append-only file",
        "store",
        "the store at {store} keeps no append-only file: a restart of the server forgets what happened since its last"
        " snapshot (set appendonly yes)",
    ),
    "store_upgrading": _kind(
        "warning",
        "another process is upgrading the store to this version's layout; this one waits",
        "store by",
        "the store at {store} is being upgraded by {by}, waiting",
    ),
    "store_upgraded": _kind(
        "warning",
        "the store was brought to this version's layout; older versions can no longer use it",
        "store before layout",
        "the store at {store} is upgraded from layout {before} to {layout}: older versions cannot use it any more",
    ),
    "sink_lost": _kind(
        "warning",
        "the database for the results does not answer; they wait",
        "sink reason",
        "{sink} is away ({reason}); results wait for it",
    ),
    "sink_back": _kind(
        "warning",
        "the database for the results answers again",
        "sink seconds",
        "{sink} is back after {seconds:.1f} s",
    ),
    # -- the program itself
    "progress": _kind(
        "info",
        "how far a job is, every few seconds",
        "job state done admitted rate in_flight pending delayed dead eta",
        "job {job}: {done} of {admitted} pages",
    ),
    "variable_unknown": _kind(
        "warning",
        "the environment has a variable SHOAL_… that means nothing: it was passed over",
        "variable hint",
        "environment: {variable} is not a setting and was passed over; {hint}",
    ),
    "bug": _kind(
        "error", "an error in Shoal itself", "job url error traceback", "a bug in Shoal, met on {url}"
    ),
    "command_failed": _kind("error", "the command ends with an error", "exit", "the command failed"),
    "log": _kind("info", "a line of the log that has no name; at any level", "worker traceback", ""),
}

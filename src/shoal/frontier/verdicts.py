"""What becomes of a task after its verdict, or after the loss of its worker. Pure.

The homes in Python use these rules; the scripts of `redis` have the same ones in Lua. The conformance suite tests both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from shoal.frontier.loss import Loss
from shoal.frontier.values import JobSpec, worker_lost
from shoal.model import (
    REJECTED,
    Dead,
    DeadLetter,
    Failure,
    Retry,
    Snapshot,
    Task,
    is_items_host,
    is_webhook_host,
)
from shoal.valve import DELIVERING, OPEN, Valve

_UNBOUNDED = 1 << 30


def is_last_attempt(task: Task, max_attempts: int) -> bool:
    """Whether the task has no attempt left. The task's own limit goes before that of its job."""
    return task.attempt >= (task.max_attempts or max_attempts)


def disposition(retry: Retry, task: Task, spec: JobSpec, snapshot: Snapshot | None) -> Retry | Dead:
    """A retry that counts on the last attempt is the end of the task. One that does not count never is."""
    if retry.counts and is_last_attempt(task, spec.max_attempts):
        return Dead(retry.failure, snapshot)
    return retry


def letter_of(task: Task, dead: Dead, at: float) -> DeadLetter:
    return DeadLetter(task.failed(dead.failure), dead.failure.kind, at, dead.snapshot)


def rejection(item: Task, id: int, job: str, at: float) -> DeadLetter:
    """An item that was rejected, as the homes keep it."""
    return DeadLetter(replace(item, id=id, job=job, created_at=at, attempt=0), REJECTED, at)


def is_rejected(letter: DeadLetter) -> bool:
    """Whether it is an item. Earlier versions had pages of the same kind."""
    return letter.kind == REJECTED and letter.task.item is not None


def first_valve(host: str, spec: JobSpec) -> Valve:
    """The valve of a host that nobody knows yet."""
    if is_webhook_host(host):
        return DELIVERING
    return OPEN if is_items_host(host) else spec.valve


def redirected(task: Task, to: Task) -> Task:
    """The task at its new URL. A redirect is not a failure: the fetch that met it does not count as an attempt."""
    return replace(
        to, id=task.id, job=task.job, created_at=task.created_at, attempt=task.attempt - 1, variant=None
    )


def marks(task: Task) -> list[int]:
    """The numbers that the seen-set keeps of an admitted task."""
    return [mark for mark in (task.fingerprint, task.variant) if mark is not None]


def own_mark(task: Task) -> int | None:
    """The mark that tells whether a page has a task; with a variant, one with the same handler and meta."""
    return task.fingerprint if task.variant is None else task.variant


def is_wanted(task: Task, wanted: Mapping[int, float]) -> bool:
    """Whether the page is said to have changed since it was last checked."""
    since = None if task.fingerprint is None else wanted.get(task.fingerprint)
    return since is not None and task.record is not None and task.record.checked_at < since


def budget_left(spec: JobSpec, done: int, leased: int) -> int:
    """How many more tasks may be leased so that the page budget is never exceeded."""
    return max(0, spec.max_pages - done - leased) if spec.max_pages else _UNBOUNDED


# -- pages that may have killed their worker
#
# If a worker hung, the page that was on the CPU is known: it loses an attempt, and the others go back unharmed. If a
# worker died, nobody knows which page killed it, so all of its pages are suspects. If they were claimed together again,
# they would all die with the guilty one. So from the second loss on they come back one by one, in reverse order every
# other time, and an engine works on one suspect at a time: the guilty page keeps killing its worker, and the others get
# done in between.

_ROOM = 0.5  # seconds between two suspects, so that the first is done before the second
_CALLERS = ("shoal/spider/handlers.py", "shoal/spider/hook_calls.py")  # of the user's code
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')


def is_suspect(task: Task) -> bool:
    """Whether the task must not be in flight beside other suspects. One loss does not make a suspect: otherwise the
    pages that a killed crawl had in flight would run one by one."""
    return len(task.history) >= 2 and _losses(task) >= 2


def _losses(task: Task) -> int:
    return sum(failure.kind == "worker_lost" for failure in task.history)


def wait_of_suspect(task: Task, place: int, company: int) -> float:
    """Seconds until a task that was lost with its worker may run again. `company` is how many tasks were lost together,
    and `place` is this one's place among them, from 0."""
    losses = 1 + _losses(task)
    if losses < 2:
        return 0.0
    # In reverse order every other time: a slow page that was still in flight when the guilty one ran goes after it.
    turn = place if losses % 2 == 0 else company - 1 - place
    return turn * _ROOM * (losses - 1)


def lost(task: Task, place: int, company: int, now: float) -> Retry:
    """What becomes of a task whose worker was lost, if nothing more is known."""
    return Retry(wait_of_suspect(task, place, company), worker_lost(task.attempt, now))


def verdict_on(
    task: Task, token: int, loss: Loss | None, place: int, company: int, now: float
) -> tuple[Retry, Snapshot | None] | None:
    """What becomes of a task whose worker was lost, and the snapshot to keep; None: it goes back unharmed. `loss` is
    what is known about the worker's end, if anything."""
    if loss is None or not loss.hung or not loss.token:
        return lost(task, place, company, now), None
    if token != loss.token:
        return None
    detail = f"the page held the process for {loss.seconds:.0f} s{where(loss.stack)}, and was ended with it"
    failure = Failure("hung", detail, at=now, elapsed=loss.seconds, attempt=task.attempt)
    # The page waits for as long as it held up the others, so that they go first.
    return Retry(loss.seconds, failure), Snapshot(traceback=loss.stack)


def where(stack: str) -> str:
    """Where the main thread hung, as the end of a sentence: the line of the handler, if it was in one."""
    main = stack.rpartition("hread 0x")[2]
    if (current := stack.find("Current thread")) >= 0:
        main = stack[current:].partition("\n\n")[0]
    frames = _FRAME.findall(main)  # the innermost first
    if not frames:
        return ""
    inner = [place for place in range(1, len(frames)) if frames[place][0].endswith(_CALLERS)]
    file, line, name = frames[inner[0] - 1 if inner else 0]
    return f" in {name} ({file}:{line})"

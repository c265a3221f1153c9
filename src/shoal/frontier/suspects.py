"""Telling a page that kills its worker from those that merely died with it. Pure.

Of a worker that hung, the page is known that was on the CPU: it has spent an attempt, and the others go back
unharmed. Of one that died by itself nobody knows which page did it, so all of them are suspects. Given back together
they would be claimed together, and buried together with the guilty one. So from the second loss on they come back one
by one, each time in the other order, and an engine works on one of them at a time: the guilty page goes on meeting its
end, the others get through in between.
"""

from __future__ import annotations

import re

from shoal.frontier.loss import Loss
from shoal.frontier.values import worker_lost
from shoal.model import Failure, Retry, Snapshot, Task

_ROOM = 0.5  # seconds from one suspect to the next, so that it is through before
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')


def is_suspect(task: Task) -> bool:
    """Whether it must not be in flight beside others like it. Once is no suspicion: else what a killed crawl had in
    flight would be done page by page."""
    return len(task.history) >= 2 and _losses(task) >= 2


def _losses(task: Task) -> int:
    return sum(failure.kind == "worker_lost" for failure in task.history)


def wait_of_suspect(task: Task, place: int, company: int) -> float:
    """Seconds until a task that was lost with its worker may run again; `company` tasks were lost together, and this
    is one of them: the first has the place 0."""
    losses = 1 + _losses(task)
    if losses < 2:
        return 0.0
    # Those that are slow, and are in flight again when the guilty one comes, come after it the next time.
    turn = place if losses % 2 == 0 else company - 1 - place
    return turn * _ROOM * (losses - 1)


def lost(task: Task, place: int, company: int, now: float) -> Retry:
    """What becomes of a task whose worker was lost, if no more is known of it."""
    return Retry(wait_of_suspect(task, place, company), worker_lost(task.attempt, now))


def verdict_on(
    task: Task, token: int, loss: Loss | None, place: int, company: int, now: float
) -> tuple[Retry, Snapshot | None] | None:
    """What becomes of a task whose worker was lost, and what is kept with it; None: it goes back unharmed. `loss` is
    what is known of the worker's end, if anything is."""
    if loss is None or not loss.hung or not loss.token:
        return lost(task, place, company, now), None
    if token != loss.token:
        return None
    detail = f"the page held the process for {loss.seconds:.0f} s{where(loss.stack)}, and was ended with it"
    failure = Failure("hung", detail, at=now, elapsed=loss.seconds, attempt=task.attempt)
    # Those that it held up go first: it waits for as long as they had to.
    return Retry(loss.seconds, failure), Snapshot(traceback=loss.stack)


def where(stack: str) -> str:
    """Where the main thread hung, as the end of a phrase: in the handler, if it was in one."""
    main = stack.rpartition("hread 0x")[2]
    if (current := stack.find("Current thread")) >= 0:
        main = stack[current:].partition("\n\n")[0]
    frames = _FRAME.findall(main)  # the innermost first
    if not frames:
        return ""
    inner = [
        place for place in range(1, len(frames)) if frames[place][0].endswith("shoal/spider/handlers.py")
    ]
    file, line, name = frames[inner[0] - 1 if inner else 0]
    return f" in {name} ({file}:{line})"

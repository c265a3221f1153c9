"""The fields of a task that few tasks have: how every home that writes tasks as bytes keeps them apart.

A field that is missing here would be lost by the store. A test compares this list with the task's own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.model import Failure, Task

RARE = (
    *("max_attempts", "method", "headers", "body", "pool", "meta", "hops", "renewed", "cookies", "trail"),
    *("history", "typed"),
)
_DEFAULTS = {name: getattr(Task(""), name) for name in RARE}


def rarities(task: Task) -> dict[str, Any] | None:
    """Those that are not what is usual; None for a plain link."""
    # One look at the fields that plain links never set, before the loop that asks about each.
    if (
        task.meta is not None
        or task.history
        or task.hops
        or task.method != "GET"
        or task.headers is not None
        or task.max_attempts
        or task.body is not None
        or task.pool is not None
        or task.cookies
        or task.trail
        or task.renewed
        or task.typed
    ):
        return {name: value for name in RARE if (value := getattr(task, name)) != _DEFAULTS[name]}
    return None


def restored(rare: dict[str, Any] | None) -> dict[str, Any]:
    """The fields as a task has them, from what was read."""
    if not rare:
        return {}
    rare["hops"] = tuple(rare.get("hops", ()))
    rare["cookies"] = tuple(rare.get("cookies", ()))
    rare["trail"] = tuple(rare.get("trail", ()))
    rare["history"] = msgspec.convert(rare.get("history", ()), tuple[Failure, ...])
    return rare

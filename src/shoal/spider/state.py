"""`spider.state`: small values of a job that all its processes share, and that outlive them.

    cursor = await spider.state.get("cursor")
    await spider.state.set("cursor", page.json()["next"])
    seen = await spider.state.change("seen", lambda seen: (seen or 0) + 1)

A change is not part of the page's transaction: if the page is fetched again, it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Protocol

import msgspec

from shoal.errors import SpiderError
from shoal.limits import STATE_BYTES, STATE_NAME


class Values(Protocol):
    """Where the values of one job are."""

    async def read(self) -> dict[str, Any]: ...

    async def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        """`change` may be called several times, each time with the latest values: another process may write first."""
        ...


class MemoryState:
    """`spider.state` of one process, forgotten at its end."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    async def read(self) -> dict[str, Any]:
        return self._values

    async def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        change(self._values)


_current: ContextVar[Values | None] = ContextVar("shoal-state", default=None)


@contextmanager
def state_of(values: Values | None) -> Iterator[None]:
    """What runs in it, and the tasks that it starts, has these values as its state."""
    token = _current.set(values)
    try:
        yield
    finally:
        try:
            _current.reset(token)
        except ValueError:
            pass  # a task that was never ended is closed elsewhere, when the process ends


def keep_state_of(values: Values | None) -> None:
    """The rest of the current task, and the tasks that it starts, has these values as its state."""
    _current.set(values)


class State:
    """The values of the job that runs: of whichever job, where one process runs several."""

    __slots__ = ()

    async def get(self, name: str, default: Any = None) -> Any:
        values = await _values().read()
        return values.get(_checked(name), default)

    async def set(self, name: str, value: Any) -> None:
        """None forgets the value."""
        await self.change(name, lambda _: value)

    async def change(self, name: str, function: Callable[[Any], Any], default: Any = None) -> Any:
        """Sets what `function` returns for the present value, or for `default` if there is none. It is called again if
        another process has written first, so it should do nothing else. Returns the new value."""
        _checked(name)
        changed: Any = None

        def change(values: dict[str, Any]) -> None:
            nonlocal changed
            changed = function(values.get(name, default))
            _check_value(name, changed)
            if changed is None:
                values.pop(name, None)
            else:
                values[name] = changed

        await _values().change(change)
        return changed


def _values() -> Values:
    values = _current.get()
    if values is None:
        raise SpiderError(
            "spider.state is there while a job runs: use it in handlers, hooks and start functions"
            " (and in tests within shoal.testing.state_in_memory())"
        )
    return values


def _checked(name: object) -> str:
    if not isinstance(name, str) or not name or len(name) > STATE_NAME or not name.isprintable():
        raise SpiderError(f"spider.state: the name is {name!r}; give a text of up to {STATE_NAME} characters")
    return name


def _check_value(name: str, value: Any) -> None:
    """Raises unless JSON gives it back as it is: a tuple would be a list the next time, a date a text."""
    if isawaitable(value):
        close = getattr(value, "close", lambda: None)
        close()
        raise SpiderError(f"spider.state: {name!r}: the function is asynchronous; give a plain one")
    try:
        same = bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise SpiderError(
            f"spider.state: {name!r} is a {type(value).__name__} that JSON does not keep as it is;"
            " give texts, numbers, True, False, None, and lists and dicts of these"
        )


def check_size(encoded: bytes) -> None:
    if len(encoded) > STATE_BYTES:
        raise SpiderError(
            f"spider.state: all values together have {len(encoded):,} bytes as JSON, and {STATE_BYTES:,} is the limit;"
            " yield what is large or many as items, and count with page.count"
        )

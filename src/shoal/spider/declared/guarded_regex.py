"""Regular expressions from a person's file on text from the network: they must not hang.

Python's engine backtracks: "(a+)+$" takes for ever on thirty letters. It looks for signals while it works, so a timer
of CPU time ends a search that takes too long. Only the main thread hears signals; in others the text is cut, and what
hangs all the same is ended by the watchdog (docs/failure.md).
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from shoal.errors import SpiderError

SECONDS = 1.0  # of CPU time for one search
_CUT = 10_000  # characters that are searched in another thread
_MANY = 10_000  # matches in one text
_HAS_TIMER = hasattr(signal, "setitimer")


class _Late(Exception):
    """The timer has run out."""


def find_all(pattern: re.Pattern[str], text: str) -> list[str]:
    """What the pattern finds: its first group that took part, else the whole match. Raises SpiderError if that takes
    too long."""
    if not _HAS_TIMER or threading.current_thread() is not threading.main_thread():
        return _found(pattern, text[:_CUT])
    try:
        with _timer():
            return _found(pattern, text)
    except _Late:
        raise SpiderError(
            f"the regular expression {_short(pattern.pattern)!r} takes more than {SECONDS:g} s on a text of "
            f"{len(text):,} characters: repeat nothing that repeats inside, or write ++ and *+ for + and *"
        ) from None


def _found(pattern: re.Pattern[str], text: str) -> list[str]:
    found: list[str] = []
    for match in pattern.finditer(text):
        groups = [group for group in match.groups() if group is not None]
        found.append(groups[0] if groups else "" if match.re.groups else match[0])
        if len(found) >= _MANY:
            break
    return found


@contextmanager
def _timer() -> Iterator[None]:
    """Time of this process, not of the clock: a busy machine makes nobody late."""
    before = signal.signal(signal.SIGVTALRM, _ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)


def _ring(number: int, frame: FrameType | None) -> None:
    raise _Late


def nests_repeats(pattern: str) -> bool:
    """Whether something is repeated without end inside something that is: the usual cause of patterns that hang."""
    from re import _constants as names  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    repeats = (names.MAX_REPEAT, names.MIN_REPEAT)
    waiting: list[tuple[object, bool]] = [(parser.parse(pattern), False)]
    while waiting:
        node, inside = waiting.pop()
        for one in _parts(node):
            is_op = isinstance(one, tuple) and len(one) == 2 and one[0] in repeats
            if is_op and one[1][1] is names.MAXREPEAT:
                if inside:
                    return True
                waiting.append((one[1][2], True))
            elif isinstance(one, tuple) and one and one[0] is names.ATOMIC_GROUP:
                waiting.append((one[1], False))
            elif not isinstance(one, str | int | None.__class__):
                waiting.append((one, inside))
    return False


def _parts(node: object) -> Iterator[Any]:
    if isinstance(node, list | tuple):
        yield from node
    else:
        yield from getattr(node, "data", ())


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"

"""How a process starts sooner.

A command imports this first, so it imports little.
"""

from __future__ import annotations

import atexit
import gc
import sys

_OBJECTS = 200_000  # more than any command has when its imports are done


def postpone_collection() -> None:
    """Lets the garbage collector begin its work when there are this many objects. What is imported stays: to look at it
    again and again took a tenth of the time of a small command. From then on all is as usual."""
    usual = gc.get_threshold()

    def begin(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(begin)
        gc.freeze()
        gc.set_threshold(*usual)

    def end() -> None:
        """DuckDB takes its objects for leaks if the last collection, at the exit, skips them, and prints 48 lines. Not
        for others: to look at all objects would make each exit slower."""
        if "duckdb" in sys.modules:
            if begin in gc.callbacks:
                gc.callbacks.remove(begin)  # the last collection may be the first
            gc.unfreeze()

    gc.callbacks.append(begin)
    gc.set_threshold(_OBJECTS, *usual[1:])
    atexit.register(end)

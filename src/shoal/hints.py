"""Commands that a person is told to type, with the store that this process works on."""

from __future__ import annotations

from contextvars import ContextVar

# " --store …", or "": the default. Of this task, and of those that it begins.
at_store: ContextVar[str] = ContextVar("shoal-at-store", default="")


def command(words: str) -> str:
    """Such as "shoal jobs --store redis://queue/"."""
    return f"shoal {words}{at_store.get()}"

"""Whether a debugger is attached to this process. The guardian asks before its fork, so this imports little."""

from __future__ import annotations

import sys
from typing import Any

_TRACERS = frozenset({"coverage"})  # trace functions that are no debugger


def is_attached() -> bool:
    """Whether a debugger, such as an editor's, was attached before the crawl began. Then no handler has a deadline."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return True
    trace: Any = sys.gettrace()
    if trace is None:
        return False
    module = getattr(trace, "__module__", None) or type(trace).__module__
    return str(module).partition(".")[0] not in _TRACERS

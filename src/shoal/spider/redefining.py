"""Functions that are defined again: in a notebook or at a prompt, where a cell is run more than once."""

from __future__ import annotations

import os
from types import CodeType


def is_redefined(old: object, new: object) -> bool:
    """Whether `new` takes the place of `old`: both were typed, and not read from a file, where a second function of the
    same name is a mistake. So it is within one cell."""
    before, now = _code(old), _code(new)
    if before is None or now is None or not (_is_typed(old, before) and _is_typed(new, now)):
        return False
    return before.co_filename != now.co_filename or before.co_firstlineno == now.co_firstlineno


def _code(function: object) -> CodeType | None:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _is_typed(function: object, code: CodeType) -> bool:
    """Cells of a notebook have names of files that do not exist."""
    return getattr(function, "__module__", "") == "__main__" and not os.path.isfile(code.co_filename)

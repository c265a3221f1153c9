"""Positions in the user's code or files, such as "books.py:12", for messages."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType

_OWN = str(Path(__file__).parents[1]) + os.sep


def place_of_error(error: BaseException, where: str = "") -> str:
    """The last line of the user's own code in the traceback, if possible in the file `where`."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith((_OWN, "<"))]
    users = [f for f in users if f.filename == where] or users
    return f"{shown(users[-1].filename)}:{users[-1].lineno}" if users else where


def place_of_code(value: object) -> str:
    """Where a generator or coroutine is now, or where a function begins; "" if that is not known."""
    frame: FrameType | None = None
    code: CodeType | None = None
    if isinstance(value, GeneratorType):
        frame, code = value.gi_frame, value.gi_code
    elif isinstance(value, AsyncGeneratorType):
        frame, code = value.ag_frame, value.ag_code
    elif isinstance(value, CoroutineType):
        frame, code = value.cr_frame, value.cr_code
    else:
        code = getattr(getattr(value, "__func__", value), "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return f"{shown(code.co_filename)}:{frame.f_lineno if frame else code.co_firstlineno}"


def shown(path: str) -> str:
    """A relative path if it is below the current folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path


class StartPlace:
    """The position in the start while it is read: in a file, in a function, or at a request in the code."""

    def __init__(self) -> None:
        self.position = 0  # of the request, counted from 1
        self.producing: object = None  # the function, or what it returned
        self.file: Path | None = None
        self.line = 0
        self.cut = False  # the line was too long, and only its beginning was read

    def __str__(self) -> str:
        if self.file is not None:
            return f"{'stdin' if self.file == Path('-') else shown(str(self.file))}:{self.line}"
        return place_of_code(self.producing) or f"start request {self.position}"

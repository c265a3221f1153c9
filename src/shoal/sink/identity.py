"""Who a result file is, wherever it lies.

On one machine a file is known by its path. Machines of a fleet share a store but not their files: the same path means
another file on each, and in containers a path stays while the machine's name changes. So a file of a fleet has a name
of its own, kept beside it and moved with it.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from shoal.errors import SinkError


def identity_of(path: Path) -> str:
    """The file's own name; it gets one if it has none yet. Processes that ask at once get the same answer."""
    beside = path.with_name(f".{path.name}.id")
    try:
        if not beside.exists():
            _give_name(beside)
        name = beside.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SinkError(
            f"cannot write {path}: {getattr(error, 'strerror', None) or error}; {beside.name} beside it must be "
            "readable, or its folder writable"
        ) from error
    return f"{path.name} {name}"


def _give_name(beside: Path) -> None:
    draft = beside.with_name(f"{beside.name}.{uuid.uuid4().hex}")
    draft.write_text(f"{uuid.uuid4().hex}\n")
    try:
        os.link(draft, beside)  # whole, and only if nobody else was quicker
    except FileExistsError:
        pass
    finally:
        draft.unlink()

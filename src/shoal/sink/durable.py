"""Writing that is complete and stays: what `os` leaves to its callers."""

from __future__ import annotations

import os
from pathlib import Path

sync = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


def write_at(file: int, data: bytes, position: int) -> None:
    """`os.pwrite` may write less than it was given."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, position)
        rest, position = rest[written:], position + written


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable: otherwise a power cut could remove a file that is committed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Rows as a journal gets them, and result files as other people read them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from importlib import import_module

import msgspec

from shoal.model import Row

zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def rows_of(items: Sequence[object]) -> list[Row]:
    return [Row(msgspec.json.encode(item) + b"\n") for item in items]


def unpacked(data: bytes) -> bytes:
    """By the readers of other people, which know by the first bytes what it is."""
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        whole: bytes = zstd.decompress(data)
        return whole
    return data

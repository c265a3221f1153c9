"""What the probes of `shoal doctor` are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.settings import Settings


class Place(Struct, frozen=True):
    settings: Settings
    store: str
    outputs: Sequence[str]  # as after -o
    names: Sequence[str]  # hosts whose names are looked up
    environ: Mapping[str, str]

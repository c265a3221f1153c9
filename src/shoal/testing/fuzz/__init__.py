"""Fuzzing: odd bytes for everything that reads bytes from elsewhere, and a watch on exceptions, death and time.

    corpus ──▶ Mutator ──▶ Target.run(bytes) ──▶ nothing, or a finding
                             ▲    │
                 Watcher ────┘    └── CPU time: an input that takes long is doubled, to see how its time grows

A target is a function of bytes that must not raise, and that asserts what must hold. The inputs of a run come from
its seed. `python -m shoal.testing.fuzz --help` tells how to run them; docs/testing.md lists the targets.
"""

from __future__ import annotations

from shoal.testing.fuzz.target import Target
from shoal.testing.fuzz.targets import TARGETS

__all__ = ["TARGETS", "Target"]

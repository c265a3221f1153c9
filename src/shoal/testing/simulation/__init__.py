"""The real engine in virtual time, on a generated web, with seeded faults: `run(seed)` plays one world to its end."""

from __future__ import annotations

from shoal.testing.simulation.invariants import Violation
from shoal.testing.simulation.world import Trace, run

__all__ = ["Trace", "Violation", "run"]

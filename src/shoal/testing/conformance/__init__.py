"""The frontier's conformance suite: what every home must do, told in queue words.

A home proves itself by a subclass that provides two fixtures:

    class TestMyFrontier(FrontierConformance):
        @pytest.fixture
        def clock(self): return ManualClock()

        @pytest.fixture
        async def frontier(self, clock):
            async with MyFrontier(clock=clock) as frontier:
                yield frontier
"""

from __future__ import annotations

from shoal.testing.conformance.adding import AddingAndClaiming, Sources
from shoal.testing.conformance.counting import Counting
from shoal.testing.conformance.delivering import Delivering
from shoal.testing.conformance.domains import Domains
from shoal.testing.conformance.expiring import Expiring
from shoal.testing.conformance.finding import Finding
from shoal.testing.conformance.finishing import Finishing
from shoal.testing.conformance.following import FollowedPages
from shoal.testing.conformance.jobs import JobsAndLetters
from shoal.testing.conformance.leases import Leases
from shoal.testing.conformance.rejecting import Rejecting
from shoal.testing.conformance.reserving import Reserving
from shoal.testing.conformance.revisiting import Revisiting
from shoal.testing.conformance.settling import Settling
from shoal.testing.conformance.valves import Valves


class FrontierConformance(
    AddingAndClaiming,
    Valves,
    Reserving,
    Domains,
    Settling,
    Revisiting,
    Expiring,
    FollowedPages,
    Counting,
    Rejecting,
    Delivering,
    Leases,
    JobsAndLetters,
    Sources,
    Finishing,
    Finding,
):
    """Everything above, for one home."""

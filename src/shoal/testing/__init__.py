"""What Shoal is tested with, for those who test a spider, a policy or a frontier of their own.

`ChaoticWeb` serves many hosts on loopback, each with its own bad habit, in the test's event loop; `WebProcess`
serves the same from a process of its own; `ManualClock` moves time by hand.
"""

from __future__ import annotations

from shoal.testing.manual_clock import ManualClock
from shoal.testing.web import ChaoticWeb, Hit, HostProfile, Site, WebProcess

__all__ = ["ChaoticWeb", "Hit", "HostProfile", "ManualClock", "Site", "WebProcess"]

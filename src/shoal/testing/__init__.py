"""What Shoal is tested with, for those who test a spider, a policy or a frontier of their own.

`ChaoticWeb` serves many hosts on loopback, each with its own bad habit, in the test's event loop; `WebProcess`
serves the same from a process of its own; `ManualClock` moves time by hand; `state_in_memory` gives a
handler the values of `spider.state`. `shoal.testing.shop` is a shop with a login, an API, forms and files.
"""

from __future__ import annotations

from shoal.testing.manual_clock import ManualClock
from shoal.testing.state import state_in_memory
from shoal.testing.web import ChaoticWeb, Hit, HostProfile, Site, WebProcess

__all__ = ["ChaoticWeb", "Hit", "HostProfile", "ManualClock", "Site", "WebProcess", "state_in_memory"]

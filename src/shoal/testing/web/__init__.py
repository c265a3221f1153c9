"""A real web on loopback whose hosts misbehave on purpose, and which writes down every hit.

    HostProfile ──▶ WebSpec ──▶ ChaoticWeb (in this event loop) ──┐
                          └───▶ WebProcess (in its own process) ──┴──▶ Hit, Hit, Hit …

On Linux each host has an address of its own (127.0.1.1, 127.0.1.2, …) and all share one port; where only 127.0.0.1
can be bound (macOS), each host has a port of its own. A host takes one open file for its listener and one for each
connection: a thousand hosts need `ulimit -n 4096` (WebProcess raises its own limit as far as it may).
"""

from __future__ import annotations

from shoal.testing.web.chaotic import ChaoticWeb, WebProcess
from shoal.testing.web.profile import Hit, HostProfile, Kind, WebSpec
from shoal.testing.web.site import Site

__all__ = ["ChaoticWeb", "Hit", "HostProfile", "Kind", "Site", "WebProcess", "WebSpec"]

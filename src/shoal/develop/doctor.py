"""Looks at the machine, and at the servers that the settings name: what `shoal doctor` shows.

Every probe has a time limit, and all run at once: a server that does not answer holds nothing up. Nothing is written
anywhere, and nothing that a probe says has a secret in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from shoal.develop import machine_probes, server_probes
from shoal.develop.findings import Finding
from shoal.develop.probe import Place
from shoal.errors import ShoalError
from shoal.text import error_line

_PATIENCE = 5.0  # seconds for each probe

Probe = Callable[[Place], Awaitable[list[Finding]]]

PROBES: Mapping[str, Probe] = {
    "python": machine_probes.python,
    "event loop": machine_probes.event_loop,
    "extras": machine_probes.extras,
    "open files": machine_probes.open_files,
    "disk": machine_probes.disk,
    "permissions": machine_probes.permissions,
    "clock": machine_probes.clock,
    "dns": server_probes.dns,
    "chromium": machine_probes.chromium,
    "store": server_probes.store,
    "postgresql": server_probes.postgresql,
    "proxies": server_probes.proxies,
}


async def examine(
    place: Place, patience: float = _PATIENCE, probes: Mapping[str, Probe] = PROBES
) -> list[Finding]:
    """The findings of all probes, in their order."""
    found = await asyncio.gather(*(_probe(name, probe, place, patience) for name, probe in probes.items()))
    return [finding for findings in found for finding in findings]


async def _probe(name: str, probe: Probe, place: Place, patience: float) -> list[Finding]:
    try:
        async with asyncio.timeout(patience):
            return await probe(place)
    except TimeoutError:
        return [
            Finding(name, "wrong", f"no answer within {patience:g} s", "see whether it is up and reachable")
        ]
    except ShoalError as error:
        return [Finding(name, "wrong", str(error))]
    except Exception as error:  # one that fails must not hide the others
        return [Finding(name, "warning", f"it cannot be told: {error_line(error)}")]

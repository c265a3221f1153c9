"""Which versions of Shoal work side by side on a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shoal import __version__
from shoal.events import event
from shoal.frontier.protocol import Viewing
from shoal.humanize import plural
from shoal.jobs.worker_status import WorkerStatus, status_of

_UNKNOWN = "0.1.0 or older"  # whose workers do not say


def versions_of(workers: Iterable[WorkerStatus]) -> Counter[str]:
    return Counter(worker.version or _UNKNOWN for worker in workers)


def side_by_side(workers: Iterable[WorkerStatus]) -> str:
    """One sentence if there are several versions."""
    found = versions_of(workers)
    if len(found) < 2:
        return ""
    told = ", ".join(f"{plural(count, 'worker')} of {version}" for version, count in sorted(found.items()))
    return f"several versions of Shoal work here: {told}"


async def tell_other_versions(frontier: Viewing) -> None:
    """For whoever joins a fleet: that others are of another version, if so."""
    others = versions_of([status_of(record) for record in await frontier.workers()])
    del others[__version__]
    for version, count in sorted(others.items()):
        event("other_version", version=__version__, other=version, workers=count)

"""In which order the modules run: those that take longest first.

Each module runs in one process, for its tests share what is costly to make: a browser, a server, a crawl. Whoever is
done takes the next module. So no long one may be left for the end, when the others have nothing to do any more.
"""

from __future__ import annotations

import pytest

# Seconds on a quiet machine, roughly, of modules that take long.
_SECONDS = {
    "simulation/test_simulation": 60,
    "stateful/test_redis": 35,
    "e2e/test_fleet": 60,
    "attacks/test_hangs": 60,
    "e2e/test_browser_routes": 60,
    "crash/test_adding": 50,
    "docs/test_deploy_image": 50,
    "e2e/test_browser_fleet": 50,
    "integration/test_browser": 45,
    "integration/test_browser_bounds": 45,
    "e2e/test_accounts": 45,
    "e2e/test_escalation": 40,
    "e2e/test_dashboard_browser": 40,
    "crash/test_fleet_chaos": 40,
    "e2e/test_browser_lane": 35,
    "crash/test_disk": 35,
    "conformance/test_redis": 30,
    "attacks/test_slow": 30,
    "crash/test_kill": 30,
    "crash/test_signals": 30,
    "crash/test_leases": 30,
    "e2e/test_bad_proxies": 30,
    "e2e/test_proxies": 30,
    "e2e/test_hosts": 30,
    "e2e/test_fleet_valkey": 28,
    "stateful/test_frontier": 25,
    "simulation/test_set_backs": 25,
    "docs/test_deploy": 25,
    "crash/test_fleet_kill": 25,
    "integration/test_postgres": 25,
    "e2e/test_soak_quick": 25,
}
_FOLDERS = {"attacks": 12, "crash": 12, "e2e": 10, "integration": 8, "conformance": 8}  # of any other module
_SHORT = 2


def deal(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: -_seconds(item))


def _seconds(item: pytest.Item) -> float:
    folder, module = item.path.parent.name, item.path.stem
    return _SECONDS.get(f"{folder}/{module}") or _FOLDERS.get(folder, _SHORT)

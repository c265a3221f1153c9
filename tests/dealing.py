"""In which order the modules run: those that take longest first.

Each module runs in one process, for its tests share what is costly to make: a browser, a server, a crawl. Whoever is
done takes the next module. So no long one may be left for the end, when the others have nothing to do any more.
"""

from __future__ import annotations

import pytest

# Seconds on a quiet machine, roughly, of modules that take long.
_SECONDS = {
    "simulation/test_simulation": 40,
    "stateful/test_redis": 30,
    "e2e/test_fleet": 45,
    "e2e/test_browser_fleet": 45,
    "attacks/test_hangs": 40,
    "crash/test_fleet_chaos": 40,
    "docs/test_deploy_image": 40,
    "crash/test_frozen_writer": 40,
    "e2e/test_accounts": 35,
    "integration/test_browser_bounds": 35,
    "integration/test_browser": 30,
    "e2e/test_browser_lane": 12,
    "e2e/test_dashboard_browser": 30,
    "e2e/test_bad_proxies": 30,
    "crash/test_kill": 25,
    "crash/test_adding": 25,
    "crash/test_disk": 25,
    "crash/test_fleet_kill": 25,
    "e2e/test_fleet_valkey": 25,
    "e2e/test_fleet_quiet": 12,
    "e2e/test_escalation": 15,
    "e2e/test_browser_routes": 25,
    "e2e/test_host_settings": 25,
    "integration/test_postgres": 25,
    "attacks/test_slow": 25,
    "crash/test_leases": 20,
    "crash/test_signals": 20,
    "e2e/test_one_bad_url": 20,
    "e2e/test_proxies": 20,
    "integration/test_full_store": 20,
    "integration/test_gate_http1": 20,
    "conformance/test_redis": 20,
    "stateful/test_frontier": 20,
    "simulation/test_set_backs": 20,
    "docs/test_deploy": 20,
    "docs/test_site": 12,
    "docs/test_tutorial": 8,
}
_FOLDERS = {"attacks": 12, "crash": 12, "e2e": 10, "integration": 8, "conformance": 8}  # of any other module
_SHORT = 2


def deal(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: -_seconds(item))


def _seconds(item: pytest.Item) -> float:
    folder, module = item.path.parent.name, item.path.stem
    return _SECONDS.get(f"{folder}/{module}") or _FOLDERS.get(folder, _SHORT)

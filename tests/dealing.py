"""In which order the modules run: those that take longest first.

Each module runs in one process, for its tests share what is costly to make: a browser, a server, a crawl. Whoever is
done takes the next module. So no long one may be left for the end, when the others have nothing to do any more.
"""

from __future__ import annotations

import pytest

# Seconds, roughly, of modules that take long, with eight workers on two cores.
_SECONDS = {
    "e2e/test_logins": 106,
    "attacks/test_hangs": 83,
    "crash/test_frozen_writer": 67,
    "crash/test_fleet_chaos": 65,
    "e2e/test_fleet": 61,
    "simulation/test_simulation": 50,
    "conformance/test_redis": 35,
    "crash/test_kill": 35,
    "docs/test_deploy_image": 35,
    "e2e/test_accounts": 35,
    "e2e/test_browser_fleet": 35,
    "e2e/test_rejected_items": 35,
    "integration/test_browser_bounds": 35,
    "attacks/test_slow": 30,
    "crash/test_fault_points": 30,
    "crash/test_output_formats": 30,
    "e2e/test_dashboard_browser": 30,
    "integration/test_browser": 30,
    "crash/test_output_faults": 25,
    "crash/test_signals": 25,
    "docs/test_deploy": 25,
    "e2e/test_bad_proxies": 25,
    "e2e/test_fleet_valkey": 25,
    "e2e/test_job_hooks": 25,
    "crash/test_adding": 20,
    "crash/test_fleet_kill": 20,
    "crash/test_leases": 20,
    "e2e/test_browser_routes": 20,
    "stateful/test_redis": 20,
    "crash/test_shop": 15,
    "e2e/test_host_settings": 15,
    "integration/test_postgres": 15,
    "integration/test_full_browser": 15,
    "integration/test_proxy_faults": 15,
    "crash/test_disk": 14,
    "integration/test_chromium_opinions": 14,
    "crash/test_archive": 13,
    "e2e/test_export": 12,
    "simulation/test_set_backs": 12,
    "unit/test_growth": 12,
    "crash/test_downloads": 11,
    "integration/test_child_exit_codes": 11,
    "attacks/test_robots": 10,
    "crash/test_resume": 10,
    "crash/test_text_files": 10,
    "e2e/test_browser_lane": 10,
    "e2e/test_extract": 10,
    "e2e/test_one_bad_url": 10,
    "e2e/test_proxies": 10,
    "docs/test_site": 8,
}
_FOLDERS = {"attacks": 7, "crash": 7, "e2e": 4, "integration": 3, "conformance": 5}  # of any other module
_SHORT = 1


def deal(items: list[pytest.Item]) -> list[pytest.Item]:
    return sorted(items, key=lambda item: -_seconds(item))


def _seconds(item: pytest.Item) -> float:
    folder, module = item.path.parent.name, item.path.stem
    return _SECONDS.get(f"{folder}/{module}") or _FOLDERS.get(folder, _SHORT)

"""What the whole suite shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

# A run must mean the same thing everywhere: under CI the examples are fixed, at home they are new every time.
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

pytest.register_assert_rewrite("shoal.testing.conformance", "shoal.testing.stateful")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Under CI a skipped test is a failure: what the suite needs, the project installs."""
    report = yield
    if os.environ.get("CI") and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report

"""The check of signatures in docs/webhooks.md takes what is genuine, and nothing else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.engine.webhooks import webhook_tasks
from shoal.fetch.webhook_sending import signature
from shoal.limits import WEBHOOK_BODY, WEBHOOK_CHANGES
from shoal.model import Row, Task
from shoal.settings import Settings

DOC = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
BODY = b'{"id":"1"}'


@pytest.fixture
def is_genuine() -> Callable[[str, bytes, str], bool]:
    found = re.search(r"```python\n(.*?)```", DOC, re.DOTALL)
    assert found
    names: dict[str, Callable[[str, bytes, str], bool]] = {}
    exec(found[1], names)
    return names["is_genuine"]


def test_a_delivery_is_genuine_with_either_secret(is_genuine: Callable[[str, bytes, str], bool]) -> None:
    header = signature(BODY, int(time.time()), ["new", "old"])
    assert is_genuine(header, BODY, "new")
    assert is_genuine(header, BODY, "old")


@pytest.mark.parametrize(
    ("age", "body", "secret"),
    [(0, b"{}", "new"), (0, BODY, "guessed"), (301, BODY, "new"), (-301, BODY, "new")],
)
def test_another_body_another_secret_or_another_day_is_not(
    is_genuine: Callable[[str, bytes, str], bool], age: int, body: bytes, secret: str
) -> None:
    assert not is_genuine(signature(BODY, int(time.time()) - age, ["new"]), body, secret)


def test_the_fields_of_a_delivery_and_its_limits_are_named() -> None:
    import json

    rows = [Row(b"{}\n", at=1.0)] * (WEBHOOK_CHANGES + 1)
    task, _ = webhook_tasks(rows, Task("http://a.test/", job="a"), Settings(webhook="http://b.test/"))
    assert [
        name for name in json.loads(task.body or b"") if f'"{name}"' not in DOC and f"`{name}`" not in DOC
    ] == []
    assert f"{WEBHOOK_CHANGES} changes" in DOC
    assert f"{WEBHOOK_BODY // 1024} KB" in DOC

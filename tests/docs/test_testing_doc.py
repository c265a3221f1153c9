"""The tests in docs/testing.md pass, as one file of a project of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import shoal
from shoal.testing import pytest_plugin

pytest_plugins = ["pytester"]
DOC = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
SPIDERS = DOC.partition("## A chaotic web")[0]
PLUGIN = ("-p", "no:shoal", "-p", "shoal.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:asyncio")


def test_the_tests_of_a_spider(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(shoal.__file__).parents[1]))
    folder = pytester.mkdir("tests")
    (folder / "pages").mkdir()
    [about] = re.findall(r"^```json\n(.*?)^```", SPIDERS, re.MULTILINE | re.DOTALL)
    (folder / "pages" / "lamp.json").write_text(about)
    (folder / "pages" / "lamp.html").write_text('<h1>Lamp</h1><b class="price">12.50</b>')
    blocks = re.findall(r"^```python\n(.*?)^```", SPIDERS, re.MULTILINE | re.DOTALL)
    (folder / "test_shop.py").write_text("\n\n".join(blocks))
    pytester.runpytest_subprocess(*PLUGIN, "--shoal-update", timeout=60).assert_outcomes(passed=5)
    written = folder / "snapshots" / "test_shop" / "test_all_that_a_product_has.json"
    assert json.loads(written.read_text()) == [{"name": "Lamp", "price": "12.50"}]


def test_every_fixture_is_named() -> None:
    named = re.findall(r"^\| `(shoal_\w+)` \|", SPIDERS, re.MULTILINE)
    fixtures = {name for name in vars(pytest_plugin) if name.startswith("shoal_")}
    assert set(named) == fixtures - {"shoal_valkey_server", "shoal_postgres_server"}

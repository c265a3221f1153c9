"""Spiders found by address, and one clear line for everything that can be wrong with a user's file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.errors import SettingsError, SpiderError
from shoal.spider.loading import load_spider

GOOD = """
from dataclasses import dataclass
from shoal.spider.spider import Spider
spider = Spider("books", start="https://a.example/")
alias = spider

@dataclass
class Book:
    title: str

@spider.handler
def listing(page):
    yield Book("x")
"""


@pytest.fixture(autouse=True)
def clean_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "crawler_a.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    "spec", ["crawler_a.py", "crawler_a.py:spider", "./crawler_a.py:alias", "crawler_a", "crawler_a:spider"]
)
def test_every_form_of_address(write: Callable[..., Path], spec: str) -> None:
    write(GOOD)
    assert load_spider(spec).name == "books"


def test_a_file_named_like_a_module_and_its_neighbours(write: Callable[..., Path]) -> None:
    write("NAME = 'near'", "neighbour_of_json.py")
    path = write(GOOD.replace('"books"', "NAME") + "\n", "json.py")
    path.write_text("from neighbour_of_json import NAME\n" + path.read_text())
    assert load_spider(str(path)).name == "near"
    assert hasattr(sys.modules.get("json", __import__("json")), "loads")


TWO = "from shoal.spider.spider import Spider\na = Spider('a')\nb = Spider('b')\na.add_handler(print)\n"


@pytest.mark.parametrize(
    ("text", "spec", "says"),
    [
        ("x = (", "crawler_a.py", r"crawler_a.py:1: '\(' was never closed"),
        (
            "\nimport nothing_like_it",
            "crawler_a.py",
            r"crawler_a.py:2: ModuleNotFoundError: No module named 'nothing",
        ),
        ("def f():\n    1/0\nf()", "crawler_a.py", r"crawler_a.py:2: ZeroDivisionError: division by zero$"),
        ("def f():\n    1/0\nf()", "crawler_a", r"crawler_a.py:2: ZeroDivisionError: division by zero$"),
        ("raise RuntimeError('two\\nlines')", "crawler_a.py", r"crawler_a.py:1: RuntimeError: two lines$"),
        ("raise SystemExit", "crawler_a.py", r"crawler_a.py:1: SystemExit$"),
        ("import json\njson.loads('{')", "crawler_a.py", r"crawler_a.py:2: JSONDecodeError"),
        ("x = 1", "crawler_a.py", "no spider in crawler_a.py: make one"),
        (TWO, "crawler_a.py", "holds 2 spiders; choose one: crawler_a.py:a, crawler_a.py:b"),
        (TWO, "crawler_a.py:c", "no spider named 'c' in crawler_a.py; it holds crawler_a.py:a"),
        (TWO, "crawler_a.py:b", "'b' has no handler"),
        (TWO, "crawler_z.py", "no such file: crawler_z.py"),
        (TWO, "crawler_z", "no file or module named 'crawler_z'"),
        (TWO, "crawler_z.sub:x", "No module named 'crawler_z'"),
        (TWO, ":x", "no spider at ':x'"),
        (TWO, "", "no spider at ''"),
    ],
)
def test_mistakes_are_one_line(write: Callable[..., Path], text: str, spec: str, says: str) -> None:
    write(text)
    with pytest.raises(SpiderError, match=says) as caught:
        load_spider(spec)
    assert "\n" not in str(caught.value)


def test_a_wrong_setting_keeps_its_kind_and_gains_a_place(write: Callable[..., Path]) -> None:
    write("from shoal.spider.spider import Spider\ns = Spider('a', rat=1)")
    with pytest.raises(SettingsError, match=r"crawler_a.py:2: spider 'a': unknown setting 'rat'"):
        load_spider("crawler_a.py")


def test_a_failed_file_can_be_loaded_again_once_corrected(write: Callable[..., Path]) -> None:
    write("x = (")
    with pytest.raises(SpiderError):
        load_spider("crawler_a.py")
    write(GOOD)
    assert load_spider("crawler_a.py").name == "books"


def test_a_file_that_sets_up_logging_does_not_silence_ours(write: Callable[..., Path]) -> None:
    """By default dictConfig disables every logger that it does not name."""
    config = "import logging.config; logging.config.dictConfig({'version': 1, 'root': {'level': 'INFO'}})"
    write(config + GOOD)
    load_spider("crawler_a.py")
    assert logging.getLogger("shoal").isEnabledFor(logging.WARNING)

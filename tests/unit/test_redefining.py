"""A cell of a notebook that is run again replaces its functions; a second function in a file is a mistake."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

from shoal import Spider
from shoal.errors import SpiderError
from shoal.spider.loading import load_spider

CELL = """
@spider.handler
def listing(page):
    return {cell}

@spider.before_request
def sign(request): ...

@spider.on_item
def sign(item, page): ...

@spider.login(".login")
async def login(session): ...
"""


class Notebook:
    """Cells as Jupyter runs them: each has the name of a file that does not exist, made of its text."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "spider": Spider("books", "https://a.example/")}

    def run(self, cell: str) -> Spider:
        name = f"/tmp/ipykernel_1/{hash(cell)}.py"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), self.names)
        spider = self.names["spider"]
        assert isinstance(spider, Spider)
        return spider


def test_a_cell_that_is_run_again_replaces_its_functions() -> None:
    notebook = Notebook()
    notebook.run("@spider.handler\ndef first(page): ...")
    for cell in (1, 1, 2):
        spider = notebook.run(CELL.replace("{cell}", str(cell)))
    assert list(spider.handlers) == ["first", "listing"]
    assert spider.handlers["listing"].function(None) == 2
    assert [(hook.kind, hook.name) for hook in spider.hooks] == [
        ("before_request", "sign"),
        ("on_item", "sign"),
    ]
    assert spider.hooks[0].function.__code__.co_filename.endswith(f"{hash(CELL.replace('{cell}', '2'))}.py")
    assert spider.logs_in is not None


def test_options_of_the_handler_are_replaced_too() -> None:
    notebook = Notebook()
    notebook.run("@spider.handler(key='sku')\ndef product(page): ...")
    spider = notebook.run("@spider.handler(priority=3)\ndef product(page): ...")
    assert (spider.handlers["product"].key, spider.handlers["product"].priority) == (None, 3)


def test_two_functions_of_one_name_in_a_cell_are_a_mistake() -> None:
    with pytest.raises(SpiderError, match="already has a handler named 'a'"):
        Notebook().run("@spider.handler\ndef a(page): ...\n\n@spider.handler\ndef a(page): ...")


def test_two_functions_of_one_name_in_a_file_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "books.py"
    twice = "@spider.handler\ndef a(page): ...\n" * 2
    path.write_text(f"from shoal import Spider\nspider = Spider('b', 'https://a.example/')\n{twice}")
    with pytest.raises(SpiderError, match=r"books.py:5: spider 'b' already has a handler named 'a'"):
        load_spider(str(path))

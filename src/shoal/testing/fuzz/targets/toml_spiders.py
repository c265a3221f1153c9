"""Spiders as TOML: the file that a person wrote, and the pages that its fields are read from."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from shoal.errors import ShoalError
from shoal.sink.items import ItemRejected, encode_row
from shoal.spider.declared.compiling import file_spider
from shoal.spider.declared.reading_file import SpiderFile
from shoal.spider.declared.site_checks import site_problems
from shoal.spider.declared.whole_file import whole_problems
from shoal.spider.handlers import is_item
from shoal.spider.spider import Spider
from shoal.testing.fuzz.targets.pages import page_of

_SPIDER = r"""
start = "https://a.example/"
[handler.page]
follow = true
match = ["/dir/*", "*lamp*"]
next = { xpath = "//a[@rel='next']" }
paginate = { param = "page", count = "h1", per_page = 2 }
[handler.page.fields]
text = "h1, p"
all = { css = "li", list = true, clean = ["strip", "unique", { split = "," }, { join = "|" }] }
attr = { css = "a::attr(href)", type = "url" }
price = { css = "p", type = "price" }
currency = { like = "price", type = "currency" }
number = { css = "p, td", type = "int" }
float = { css = "td", type = "float" }
day = { css = "p", type = "datetime" }
there = { css = "b", type = "bool" }
stock = { css = "p", type = "availability" }
html = { css = "table", type = "html" }
xpath = { xpath = "//td", list = true }
json = { json = "..price", list = true }
state = { script = "=", json = "..*", list = true }
meta = { meta = "description" }
regex = { page = "html", regex = "[0-9]+", list = true }
cells = { each = "tr", fields = { first = "td", itself = { attr = "class" }, deep = { each = "td", fields.b = "b" } } }
lines = { each = { xpath = "//li" }, fields = { link = { xpath = ".//a/@href" } } }
first = [".no", { json = "a[?@.b == 1].c" }, "title"]
"""


@cache
def _spider() -> Spider:
    return file_spider(SpiderFile(Path("x.toml"), _SPIDER, tomllib.loads(_SPIDER)))


def toml_page(data: bytes) -> None:
    """Of any bytes the fields of a TOML spider give requests, and an item that can be written or is rejected."""
    handler = _spider().handler_named("page")
    page = page_of("application/json" if data[:1] in (b"{", b"[") else "text/html; charset=utf-8", data)
    for one in handler.function(page):
        if is_item(one):
            said = ""
            try:
                encode_row(one, handler)
            except ItemRejected as error:
                said = str(error)
            assert "not JSON" not in said


def toml_file(data: bytes) -> None:
    """A TOML file is a spider, or all that is wrong in it is told in lines with their place."""
    text = data.decode("utf-8", "replace")
    try:
        file = SpiderFile(Path("x.toml"), text, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    wrong = [*file.problems, *site_problems(file)]
    for problem in wrong:
        told = file.told(problem)
        assert told.startswith("x.toml:")
    if any(not problem.is_warning for problem in wrong) or any(whole_problems(file)):
        return
    said = ""
    try:
        file_spider(file)
    except ShoalError as error:
        said = str(error)
    assert "\n" not in said

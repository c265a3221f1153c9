"""Rows of what pages say about products, articles and so on, without code."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import SpiderError, UsageError
from shoal.html import main_text as program
from shoal.model import Response, Task
from shoal.model.request import PageLinks
from shoal.settings import Settings
from shoal.sink.items import encode_rows
from shoal.spider import extracting, text_process
from shoal.spider.default import summary_spider
from shoal.spider.page import Page
from shoal.spider.schemas import kinds_of

URL = "https://a.example/p"
SENTENCE = "This is a sentence about ducks, reeds and ponds, long enough to be text. "
ARTICLE = f"""<html lang=en><title>T</title><nav><a href=/>Home</a> <a href=/b>Products</a></nav>
<article><h1>Ducks</h1><p>{SENTENCE * 5}</p><h2>Reeds</h2><p>{SENTENCE * 5}<a href="/c">see</a></p>
<ul><li>one thing that is long enough</li><li>another</li></ul><p>{SENTENCE * 5}</p></article>
<footer>All rights reserved. <a href=/i>Imprint</a></footer>"""


def page(body: str = ARTICLE, content_type: str = "text/html") -> Page:
    return Page(Task(url=URL), Response(URL, 200, {"Content-Type": content_type}, body.encode()), "summary")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What pages say of themselves, by kind."""
    records: dict[str, list[dict[str, Any]]] = {}
    monkeypatch.setattr(extracting, "records_of", lambda page, kind: records.get(kind, []))
    return records


def fitted(*kinds: str, **settings: Any) -> Any:
    return summary_spider("x", ()).fitted(Settings(extract=list(kinds), **settings))  # type: ignore[arg-type]


async def rows_of(seen: Page, *kinds: str, **settings: Any) -> list[tuple[str, bytes]]:
    handler = fitted(*kinds, **settings).handler_named("")
    made = handler.function(seen)
    made = await made if asyncio.iscoroutine(made) else made
    encoded = encode_rows([one for one in made if not isinstance(one, PageLinks)], handler)
    assert encoded.rejected == ()
    return [(row.table, row.data) for row in encoded.rows]


async def test_records_are_items_of_their_kind(said: dict[str, list[dict[str, Any]]]) -> None:
    said |= {"product": [{"type": "product", "name": "A"}, {"type": "product", "name": "B"}], "event": [{}]}
    found = await rows_of(page(), "product", "event")
    assert found == [
        ("product", b'{"page":"https://a.example/p","type":"product","name":"A"}\n'),
        ("product", b'{"page":"https://a.example/p","type":"product","name":"B"}\n'),
        ("event", b'{"page":"https://a.example/p"}\n'),
    ]
    assert kinds_of(fitted("product", "event")) == ["product", "event"]
    assert kinds_of(fitted("product", row_fields=["text"])) == ["product", "summary"]


async def test_products_of_a_real_page() -> None:
    """As `page.data` reads them."""
    described = """<script type="application/ld+json">{"@type": "Product", "name": "Duck", "offers":
    {"@type": "Offer", "price": "1234.50", "priceCurrency": "EUR"}}</script><a href=/next>next</a>"""
    ((table, data),) = await rows_of(page(described), "product", "breadcrumb")
    assert (table, b'"name":"Duck"' in data, b'"price":"1234.50"' in data) == ("product", True, True)


async def test_links_are_followed_and_the_usual_row_is_left_out(
    said: dict[str, list[dict[str, Any]]],
) -> None:
    (links,) = fitted("product").handler_named("").function(page())
    assert [one.url for one in links] == ["/", "/b", "/c", "/i"]
    (table, data), *_ = await rows_of(page(), "product", row_fields=["h1"])
    assert (table, b'"h1":"Ducks"' in data) == ("summary", True)


async def test_other_documents_have_none(said: dict[str, list[dict[str, Any]]]) -> None:
    said["product"] = [{"type": "product"}]
    assert await rows_of(page(content_type="application/pdf"), "product", "text") == []


async def test_main_text_and_markdown() -> None:
    seen = page()
    text, markdown = await seen.main_text(), await seen.markdown()
    assert SENTENCE.strip() in text
    assert not {"Imprint", "Products"} & set(text.split())
    assert "## Reeds" in markdown
    assert "- one thing" in markdown
    assert "[see](https://a.example/c)" in markdown
    assert await page("<p>").main_text() == ""


async def test_links_in_markdown_are_relative_to_the_page() -> None:
    text = f"{SENTENCE * 5}<a href='../up'>up</a> <a href='#part'>part</a> <a href='http://['>bad</a> {SENTENCE * 5}"
    sign = "<a class='headerlink' href='#t'>¶</a>"
    body = (
        f"<base href='/docs/old/'><article><h1>Ducks{sign}</h1><p>{text}</p><p>{SENTENCE * 5}</p></article>"
    )
    found = await page(body).markdown()
    assert "[up](https://a.example/docs/up)" in found
    assert "[part](https://a.example/docs/old/#part)" in found
    assert "# Ducks\n" in found


NEWS = """<script type="application/ld+json">{"@type": "NewsArticle", "headline": "Ducks!", "author": "Ann",
"articleBody": "short"}</script>"""


async def test_articles_have_what_the_page_says_and_its_text() -> None:
    ((table, plain),) = await rows_of(page(), "article")
    ((_, told),) = await rows_of(page(ARTICLE + NEWS), "article")
    one, other = json.loads(plain), json.loads(told)
    assert table == "article"
    assert list(one) == list(other)  # one shape, whatever a page says
    assert (one["headline"], one["title"], one["language"], one["author"]) == ("T", "T", "en", None)
    assert (other["headline"], other["title"], other["author"]) == ("Ducks!", "T", "Ann")
    assert "ducks, reeds and ponds" in one["text"]
    assert one["text"] == other["text"]


async def test_what_is_an_article() -> None:
    assert await rows_of(page("<title>T</title><p>Too short to be one."), "article") == []
    ((_, data),) = await rows_of(page(NEWS), "article")  # it says so, and has no other text
    assert json.loads(data)["text"] == "short"


async def test_a_long_text_is_cut_and_that_is_said() -> None:
    ((_, data),) = await rows_of(page(), "text", max_text=30)
    assert b'"cut":true' in data
    assert len(data) < 300


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_process, "find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=r"extract: 'markdown' needs trafilatura: pip install 'shoal\[text\]'"
    ):
        fitted("product", "markdown")
    assert fitted("product").handlers


@pytest.mark.slow
async def test_a_page_that_takes_too_long_costs_its_process_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = text_process.TextProcess(seconds=0.5)
    monkeypatch.setattr(text_process, "_PROCESS", mine)
    assert await page("<p>").main_text() == ""
    first = repr(mine)
    with pytest.raises(
        SpiderError, match=r"the main text of https://a.example/p cannot be found: it took more than"
    ):
        await page(f"<p>{SENTENCE}</p>" * 30_000).main_text()
    mine._seconds = 30.0  # the first text of a process takes longer
    assert SENTENCE.strip() in await page().main_text()
    assert repr(mine) != first  # another one
    mine.close()


async def test_a_trafilatura_that_cannot_be_imported_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "trafilatura.py").write_text("raise ImportError('half of it is missing')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    mine = text_process.TextProcess()
    monkeypatch.setattr(text_process, "_PROCESS", mine)
    with pytest.raises(SpiderError, match="trafilatura does not work here"):
        await page().main_text()
    mine.close()


def test_messages_that_end_early_are_the_end() -> None:
    import io

    stream = io.BytesIO()
    program.write_message(stream, program.Answer("x"))
    whole = stream.getvalue()
    assert program.read_message(io.BytesIO(whole)) is not None
    assert program.read_message(io.BytesIO(whole[:-1])) is None
    assert program.read_message(io.BytesIO(b"\x01")) is None

"""The handler of `shoal crawl URL --extract KIND`: rows of what pages say about products, articles and so on.

Each kind of rows is a kind of items, as if a handler had a class for each: `-o product=p.csv` takes products alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.errors import SpiderError
from shoal.html.page_facts import word_count
from shoal.html.records.fields import FIELDS, empty
from shoal.model.request import PageLinks
from shoal.settings import Settings
from shoal.spider.schemas import Schema
from shoal.spider.spider import Handler

if TYPE_CHECKING:
    from shoal.spider.page import Page

Record = dict[str, Any]

TEXTS = ("text", "markdown")  # the main text of a page, by an extra
ARTICLE = "article"
_CALLED = {"job": "job_posting"}  # kinds that `page.data` has under another name
_WORDS = 100  # of main text that make an article of a page that does not say what it is


def _class_of(kind: str) -> type[Record]:
    return type(kind.title(), (dict,), {})


def _decoded(kind: type[Record]) -> Callable[[bytes], object]:
    return lambda data: kind(msgspec.json.decode(data))


def _schema(kind: str) -> Schema:
    made = _class_of(kind)
    return Schema(made, kind, _decoded(made), is_checked=True)


def extracting_handler(name: str, settings: Settings) -> Handler:
    """The handler for what the setting `extract` names. With `row_fields`, each page has its usual row besides."""
    from shoal.spider.default import summary, with_fields

    kinds = list(dict.fromkeys(settings.extract))
    reads_text = [kind for kind in kinds if kind in (*TEXTS, ARTICLE)]
    if reads_text:
        from shoal.spider.text_process import check_installed

        check_installed(f"extract: {reads_text[0]!r}")
    rows = [*kinds, name] if settings.row_fields else kinds
    schemas = {kind: _schema(kind) for kind in rows}
    usual = with_fields(settings) if settings.row_fields else summary
    extractor = _Extractor(kinds, settings.max_text)

    def wrapped(kind: str, record: Record) -> Record:
        made: Record = schemas[kind].type(record)
        return made

    def followed(page: Page) -> tuple[list[Record], list[PageLinks]]:
        row, *links = usual(page)
        assert isinstance(row, dict)
        own = [wrapped(name, row)] if settings.row_fields else []
        return own, [one for one in links if isinstance(one, PageLinks)]

    def extract(page: Page) -> list[Record | PageLinks]:
        own, links = followed(page)
        return [*own, *(wrapped(kind, one) for kind, one in extractor.structured(page)), *links]

    async def extract_text(page: Page) -> list[Record | PageLinks]:
        own, links = followed(page)
        found = [*extractor.structured(page), *[one async for one in extractor.texts(page)]]
        return [*own, *(wrapped(kind, one) for kind, one in found), *links]

    function: Callable[..., Any] = extract_text if reads_text else extract
    return Handler(name, function, schemas=tuple(schemas.values()))


class _Extractor:
    def __init__(self, kinds: Iterable[str], most_text: int) -> None:
        self._kinds = list(kinds)
        self._most_text = most_text

    def structured(self, page: Page) -> Iterable[tuple[str, Record]]:
        """What the page says of itself, but for articles, which need its text."""
        if not page.is_html:
            return
        for kind in self._kinds:
            if kind not in (*TEXTS, ARTICLE):
                for record in records_of(page, kind):
                    yield kind, {"page": page.url, **record}

    async def texts(self, page: Page) -> Any:
        if not page.is_html:
            return
        plain: str | None = None
        if "text" in self._kinds or ARTICLE in self._kinds:
            plain = await self._main(page, page.main_text)
        if ARTICLE in self._kinds:
            for record in self._articles(page, plain):
                yield ARTICLE, record
        if "text" in self._kinds:
            yield "text", self._row(page, "text", plain)
        if "markdown" in self._kinds:
            yield "markdown", self._row(page, "markdown", await self._main(page, page.markdown))

    async def _main(self, page: Page, read: Callable[[], Any]) -> str | None:
        """None: it could not be found in time. That is counted."""
        try:
            return str(await read())
        except SpiderError as error:
            page.count("pages without main text")
            page.log.warning("%s", error)
            return None

    def _row(self, page: Page, form: str, text: str | None) -> Record:
        from shoal.spider.default import title_of

        cut = text is not None and len(text) > self._most_text
        language = page.tree.root.attributes.get("lang") if page.tree.root else None
        row: Record = {"page": page.url, "title": title_of(page.tree), "language": language or None}
        row |= {"words": None if text is None else word_count(text), "cut": cut}
        return row | {form: None if text is None else text[: self._most_text]}

    def _articles(self, page: Page, text: str | None) -> Iterable[Record]:
        """The article that the page says it is, with its main text. A page that does not say so is one if it has enough
        text. Every row has all fields."""
        said = records_of(page, ARTICLE)
        row = self._row(page, "text", text)
        if not said and (row["words"] or 0) < _WORDS:
            return
        record: Record = dict(said[0]) if said else {name: empty(name) for name in FIELDS[ARTICLE]}
        body = record.pop("body", None)
        record |= {"type": ARTICLE, "headline": record["headline"] or row["title"]}
        record["language"] = record["language"] or row["language"]
        if not row["text"] and body:
            row = self._row(page, "text", str(body))
        yield {"page": page.url, **record, **{name: row[name] for name in ("title", "words", "cut", "text")}}


def records_of(page: Page, kind: str) -> list[Record]:
    """The normalised records of one kind (`page.data`)."""
    return page.data(_CALLED.get(kind, kind))

"""What a handler sees: the answer of a server, parsed when first looked at, and ways to ask for more pages.

Nodes of HTML are selectolax's (`selectolax.lexbor.LexborNode`), those of XML have what is used most: `node.text()`,
`node.attributes["href"]`, `node.css("…")`, `node.css_first("…")`, `node.parent`, `node.tag`, `node.html`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec
from msgspec.structs import replace
from multidict import CIMultiDict
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from shoal.errors import SpiderError
from shoal.events import event
from shoal.html import charset, decoding
from shoal.html.css import Selection
from shoal.html.forms import FieldValue, FormError, submit
from shoal.html.link_header import HeaderLink, read_links
from shoal.html.media import Kind, kind_of, media_type
from shoal.html.page_links import (
    absolute,
    document_base,
    in_encoding,
    is_legacy,
    largest_number,
    page_urls,
    target_of,
    targets_in,
)
from shoal.html.parsing import parse
from shoal.html.visible_text import readable_text, squeeze, visible_text
from shoal.html.xml import XmlDocument, XmlNode
from shoal.model import Response, Task
from shoal.model.counts import Counts, check_count
from shoal.model.request import PageLinks, Pairs, Request, links_to
from shoal.spider.inner import FetchFailed, File, Inner, Unawaited
from shoal.spider.page_log import PageLog
from shoal.spider.rendering import Rendered, Tab
from shoal.spider.spider import Handler, handler_name

if TYPE_CHECKING:
    from shoal.spider.page_data import PageData

Node: TypeAlias = LexborNode | XmlNode
HandlerLike: TypeAlias = Callable[..., Any] | Handler | str | None
T = TypeVar("T")

MAX_DETECTED_PAGES = 10_000  # a number read from a page is not trusted beyond this


class FollowOptions(TypedDict, total=False):
    """How to ask for a page; what is not given is as for the handler."""

    lane: str | None
    priority: int | None
    depth: int | None
    meta: dict[str, Any] | None
    method: str
    headers: dict[str, str] | None
    body: bytes | None
    params: Pairs | None
    form: Pairs | None
    json: Any
    auth: tuple[str, str] | None
    cookies: dict[str, str] | None
    session: str | None
    proxy: str | None
    country: str | None
    pool: str | None
    timeout: float | None
    max_body: int | None
    wait_for: str | None
    dedupe: bool
    max_attempts: int
    anywhere: bool


class Page:
    """What a handler is given: the answer of a server, parsed when it is first looked at, and ways to ask for more
    pages.

    Elements of HTML are selectolax's (`selectolax.lexbor.LexborNode`). Those of XML have what is used most of it:
    `node.text()`, `node.attributes["href"]`, `node.css("…")`, `node.css_first("…")`, `node.parent`, `node.tag`,
    `node.html`.
    """

    __slots__ = (
        "_base",
        "_codec",
        "_counts",
        "_data",
        "_html",
        "_inner",
        "_selection",
        "_sort",
        "_tab",
        "_tree",
        "_xml",
        "cut",
        "fetched_at",
        "handler",
        "response",
        "task",
        "truncated",
    )

    def __init__(
        self,
        task: Task,
        response: Response,
        handler: str,
        fetched_at: float = 0.0,
        *,
        inner: Inner | None = None,
    ) -> None:
        self._inner = inner
        self._tab = response.tab if isinstance(response, Rendered) else None
        self.task = task
        self.response = response
        self.handler = handler  # the name of the handler this page is for
        self._counts = Counts()
        self.fetched_at = fetched_at  # seconds since the epoch
        self._forget()

    def _forget(self) -> None:
        """What was drawn from the body."""
        self._base: str | None = None
        self._codec: str | None = None
        self._data: PageData | None = None
        self._html: str | None = None
        self._tree: LexborHTMLParser | None = None
        self._selection: Selection | None = None
        self._sort: Kind | None = None
        self._xml: XmlDocument | None = None
        self.truncated = False  # whether the body ends in the middle of a character
        self.cut = 0  # bytes at the end that were left out, because parsing them would have taken too long

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url} ({len(self.body):,} bytes, depth {self.depth})>"

    # -- the answer

    @property
    def url(self) -> str:
        """Where the page was found, after redirects."""
        return self.response.url

    @property
    def status(self) -> int:
        """The HTTP status, such as 200."""
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer; upper and lower case are the same in their names."""
        return self.response.headers

    @property
    def body(self) -> bytes:
        """The body as bytes, decompressed."""
        return self.response.body

    @property
    def cached(self) -> bool:
        """Whether it is from an archive (`--cache`, `shoal extract`), and was not fetched now."""
        return self.response.cached

    @property
    def depth(self) -> int:
        """How many links it is away from a start URL."""
        return self.task.depth

    @property
    def meta(self) -> dict[str, Any]:
        """The `meta` of its request: a dict of your own values."""
        return self.task.meta or {}

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters; "" if the server gave none."""
        return media_type(self.headers.get("Content-Type", ""))

    @property
    def is_html(self) -> bool:
        """Whether it is read as HTML or XHTML."""
        return self._kind in ("html", "xhtml")

    @property
    def is_xml(self) -> bool:
        """Whether it is read as XML: feeds, sitemaps and the like, but not XHTML."""
        return self._kind == "xml"

    @property
    def _kind(self) -> Kind:
        if self._sort is None:
            self._sort = kind_of(self.content_type, self.body)
        return self._sort

    @property
    def codec(self) -> str:
        """The character encoding, by its name in Python: as browsers find it, or as it looks (docs/text.md)."""
        if self._codec is None:
            self._codec = charset.codec_of(self.body, self.headers.get("Content-Type", ""))
            self.truncated = bool(decoding.half_character(self.body, self._codec))
            if self.truncated:
                event("page_truncated", job=self.task.job, url=self.url, host=self.task.host)
        return self._codec

    @property
    def html(self) -> str:
        """The body as text; what cannot be decoded is replaced, and half a character at the end left out."""
        if self._html is None:
            self._html = decoding.decode(self.body, self.codec)
        return self._html

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return msgspec.json.decode(self._utf8())
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(f"{self.url} is not JSON: {error}") from None

    def replace(
        self,
        *,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> Page:
        """A copy of the page with another body, other headers or another status, for an `after_response` hook.

        A text is encoded as UTF-8, and the header says so.
        """
        page, response = copy(self), self.response
        given = CIMultiDict(response.headers if headers is None else headers)
        if isinstance(body, str):
            body = body.encode(errors="replace")
            given["Content-Type"] = f"{self.content_type or 'text/html'}; charset=utf-8"
        page.response = replace(
            response,
            body=response.body if body is None else body,
            headers=given,
            status=response.status if status is None else status,
        )
        page._forget()
        return page

    # -- looking into it

    @property
    def tree(self) -> LexborHTMLParser:
        """The parsed document. Of a page made to choke parsers, the tail may be left out (see `cut`)."""
        if self._tree is None:
            html = self._markup()
            self._tree, kept = parse(html)
            self._keep(kept, len(html))
        return self._tree

    @property
    def _document(self) -> XmlDocument:
        """Of XML."""
        if self._xml is None:
            self._xml = XmlDocument(self._utf8(), f"{self.url} is XML: reading it")
            self._keep(self._xml.kept, self._xml.size)
        return self._xml

    def _keep(self, kept: int, size: int) -> None:
        if kept < size and not self.cut:
            event("page_cut", job=self.task.job, url=self.url, host=self.task.host, kept=kept, size=size)
        self.cut = max(self.cut, size - kept)

    def _utf8(self) -> bytes:
        return decoding.utf8(self.body, self.codec)

    def _markup(self) -> bytes:
        if self._kind != "xhtml":
            return self._utf8()
        from shoal.html.markup_repair import as_html

        return as_html(self._utf8())

    def css(self, selector: str) -> list[Node]:
        """All elements that match a CSS selector."""
        if self.is_xml:
            return list(self._document.css(selector))
        try:
            return list[Node](self._select().all(selector))
        except (SelectolaxError, UnicodeError):
            raise _no_selector(selector) from None

    def first(self, selector: str) -> Node | None:
        """The first element that matches a CSS selector, or None."""
        if self.is_xml:
            return next(self._document.css(selector), None)
        try:
            return self._select().first(selector)
        except (SelectolaxError, UnicodeError):
            raise _no_selector(selector) from None

    def _select(self) -> Selection:
        if self._selection is None:
            self._selection = Selection(self.tree)
        return self._selection

    def xpath(self, expression: str, namespaces: Mapping[str, str] | None = None) -> list[Any]:
        """What an XPath expression finds: lxml elements, or strings for text() and @attributes.

        In XML the prefixes of the document and well-known ones can be used, "_" for its default namespace, and more as
        `namespaces={"prefix": "uri"}`.
        """
        if self.is_xml:
            return self._document.xpath(expression, namespaces)
        from shoal.html.xml import evaluate

        html = self._markup()
        found, kept = evaluate(html, expression, namespaces)
        self._keep(kept, len(html))
        return found

    def text(self, selector: str | None = None, default: str = "") -> str:
        """The text of the first element that matches, or `default`; without a selector, all text that can be read on
        the page. White space becomes single spaces."""
        if selector is None:
            return squeeze(self._document.text()) if self.is_xml else visible_text(self.tree)
        node = self.first(selector)
        return default if node is None else _text_of(node)

    def texts(self, selector: str) -> list[str]:
        """The text of every element that matches."""
        return [_text_of(node) for node in self.css(selector)]

    def attr(self, selector: str, name: str, default: T | None = None) -> str | T | None:
        """An attribute of the first element that matches, or `default`."""
        node = self.first(selector)
        value = None if node is None else node.attributes.get(name)
        return default if value is None else value

    def attrs(self, selector: str, name: str) -> list[str]:
        """An attribute of every element that matches and has it."""
        values = (node.attributes.get(name) for node in self.css(selector))
        return [value for value in values if value is not None]

    def re(self, pattern: str | re.Pattern[str], selector: str | None = None) -> list[str]:
        """What a regular expression finds in the text of every element that matches, or without a selector in the whole
        body: its groups if it has some, else the whole matches."""
        texts = [self.html] if selector is None else self.texts(selector)
        found = [match for text in texts for match in re.finditer(pattern, text)]
        return [one for match in found for one in (match.groups("") or (match[0],))]

    def jsonld(self) -> list[dict[str, Any]]:
        """The objects of JSON-LD on the page, those in lists and graphs one by one. What is not JSON is passed over."""
        from shoal.html.structured.jsonld import objects_in

        return [] if self.is_xml else objects_in(self.tree)

    async def main_text(self) -> str:
        """`await page.main_text()`: the main text, without menus, footers and comments (extra `text`); "" if there is
        none. Found in another process, within 10 s of CPU; raises SpiderError if that is not enough."""
        from shoal.spider.text_process import extract_text

        return await extract_text(self, "text")

    async def markdown(self) -> str:
        """`await page.markdown()`: the main text as Markdown, with headings, lists, tables and links."""
        from shoal.spider.text_process import extract_text

        return await extract_text(self, "markdown")

    def data(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What the page describes for machines, as records of one shape, whether it does so with JSON-LD, microdata,
        RDFa or OpenGraph: products, articles, events, recipes, job postings, breadcrumbs. All of them, or those of one
        kind, such as "product". Every field of a kind is there; None or an empty list if the page does not say."""
        return self._described().records(kind)

    def structured(self) -> dict[str, Any]:
        """The same as it stands in the page, by syntax: "jsonld", "microdata" and "rdfa" are lists of objects,
        "opengraph", "twitter" and "meta" values by name."""
        return self._described().by_syntax()

    def _described(self) -> PageData:
        if self._data is None:
            from shoal.spider.page_data import PageData

            self._data = PageData(None if self.is_xml else self.tree, self.base, self.headers, self.url)
        return self._data

    def save(self, path: str | Path) -> Path:
        """Writes the body to a file, whole or not at all, and returns its path. Missing folders are made."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            part.write_bytes(self.body)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def view(self) -> Path:
        """Opens the page as it was fetched in your browser, for you to look at, and gives the path of the file that was
        made for it. Scripts of the page do not run."""
        from shoal.spider.viewing import view

        return view(self)

    def links(self, selector: str | None = None) -> list[str]:
        """The absolute URLs that the matching elements point to, each once; without a selector, those of all links,
        areas and frames of the page, and of a refresh."""
        return absolute(self.base, self._targets(selector))

    def header_links(self, rel: str | None = None) -> list[HeaderLink]:
        """What the Link header says (RFC 8288): all links, or those with a relation, such as "next". Each has its
        `url`, its `rel` and its `parameters`; `page.follow_all(page.header_links("next"))` takes them."""
        found = read_links(self.headers, self.url)
        return found if rel is None else [link for link in found if rel.lower() in link.rel]

    @property
    def base(self) -> str:
        """What relative links are relative to: the page's URL, or what <base href> says."""
        if self._base is None:
            parse = self._tree is not None or self.is_html
            self._base = document_base(self.tree, self.url) if parse else self.url
        return self._base

    # -- telling

    @property
    def log(self) -> PageLog:
        """A logger whose records name job, URL and handler."""
        return PageLog(self.task.job, self.url, self.handler)

    def count(self, name: str, number: int = 1) -> None:
        """Adds to a counter of the job. It takes effect when the page is committed, so it is exact: a page that is
        repeated or given up does not count."""
        check_count(name, number)
        if number:
            self._counts.add(name, number)

    # -- in a browser

    @property
    def in_browser(self) -> bool:
        """Whether the page is open in a browser. Only then can it be clicked, scrolled and so on; the rest of the
        page shows what came of it."""
        return self._tab is not None

    async def click(self, selector: str) -> None:
        """Clicks the first element that matches."""
        await self._open("click").click(selector)
        await self._reread()

    async def fill(self, selector: str, text: str) -> None:
        """Writes into a form field."""
        await self._open("fill").fill(selector, text)
        await self._reread()

    async def press(self, key: str) -> None:
        """Presses a key, such as "Enter"."""
        await self._open("press").press(key)
        await self._reread()

    async def scroll(self, times: int = 1) -> None:
        """Scrolls to the end of the page, `times` times, for pages that load more when they are scrolled."""
        await self._open("scroll").scroll(times)
        await self._reread()

    async def evaluate(self, script: str) -> Any:
        """Evaluates a JavaScript expression or function, and returns its value."""
        result = await self._open("evaluate").evaluate(script)
        await self._reread()
        return result

    async def wait_for(self, condition: str) -> None:
        """Waits until a CSS selector matches, until the page is loaded ("load"), or until there is no more traffic
        ("quiet")."""
        await self._open("wait_for").wait_for(condition)
        await self._reread()

    async def screenshot(self, *, full: bool = False) -> bytes:
        """A PNG of what can be seen, or of the whole page."""
        return await self._open("screenshot").screenshot(full=full)

    def _open(self, what: str) -> Tab:
        if self._tab is None:
            raise SpiderError(
                f'page.{what}() needs a browser: write @spider.handler(lane="browser") above {self.handler}, '
                'or yield page.follow(…, lane="browser")'
            )
        return self._tab

    async def _reread(self) -> None:
        assert self._tab is not None
        body = (await self._tab.html()).encode("utf-8", "replace")
        self.response = replace(self.response, body=body, url=self._tab.url)
        self._forget()

    # -- asking for more

    def follow(
        self, target: str | Node | HeaderLink, handler: HandlerLike = None, **options: Unpack[FollowOptions]
    ) -> Request:
        """A request to yield: for a URL (relative ones are fine), an element with href or src, or a link of a header.

        `handler` is a function decorated with @spider.handler, or its name; None is the handler of this page.
        The options are those of `Request`.
        """
        if isinstance(target, HeaderLink):
            target = target.url
        elif not isinstance(target, str):
            target = _target(target)
        if is_legacy(codec := self.codec):
            target = in_encoding(target, codec)
        name = self.handler if handler is None else handler_name(handler)
        return Request(target, name, self._base or self.base, **options)

    def fetch(self, target: str | Node | Request, **options: Unpack[FollowOptions]) -> Unawaited[Page]:
        """`await page.fetch(…)`: another page, within this handler. Takes what `follow` takes, or a request such as
        `other.submit_form(…)`. It keeps to the host's limits and to robots.txt, follows redirects and tries again;
        raises FetchFailed if there is no page."""
        request = self._asked("fetch", target, options)
        inner = self._inner
        assert inner is not None
        return Unawaited("page.fetch(…)", lambda: self._fetched(inner, request))

    async def _fetched(self, inner: Inner, request: Request) -> Page:
        """What the other page counts is committed with this one."""
        try:
            page = await inner.fetch(request)
        except FetchFailed as failed:
            if failed.page is not None:
                failed.page._counts = self._counts
            raise
        page._counts = self._counts
        return page

    def download(
        self, target: str | Node | Request, *, to: str = "", name: str = "", **options: Unpack[FollowOptions]
    ) -> Unawaited[File]:
        """`await page.download(…)`: a file, stored when it is whole. Takes what `fetch` takes. It gets the name that
        the server or the URL gives it, or `name`; or goes to the path `to` in the folder of files (setting `files`).
        Raises FetchFailed if there is no file."""
        request = self._asked("download", target, options)
        inner = self._inner
        assert inner is not None
        return Unawaited("page.download(…)", lambda: inner.download(request, to, name))

    def _asked(self, verb: str, target: object, options: FollowOptions) -> Request:
        """The request for a page or file that the handler waits for."""
        if self._inner is None:
            raise SpiderError(
                f"page.{verb} works in a crawl only: this page was made without one; tests crawl with shoal.testing.run"
            )
        if isinstance(target, Request):
            return replace(target, base=target.base or self.base, **options)
        if not isinstance(target, str | LexborNode | XmlNode):
            kind = type(target).__name__
            raise SpiderError(f"page.{verb} takes a URL, an element or a request, not a {kind}")
        return self.follow(target, **options)

    def submit_form(
        self,
        selector: str | Node = "form",
        fields: Mapping[str, FieldValue] | None = None,
        handler: HandlerLike = None,
        *,
        click: str | Node | bool = True,
        **options: Unpack[FollowOptions],
    ) -> Request:
        """A request to yield: what a browser sends when the form is filled in and submitted.

        `selector` finds the form, or anything inside it; an element will do, too. `fields` are values by name, which
        replace those of the page: a text or number, a list for several values, True or False for a checkbox, None to
        leave a field out. Hidden fields, method, action and encoding are the form's. `click` is the button, as a
        selector or element; by default the form's first one, as when Enter is pressed; False: none.
        """
        shown = repr(selector) if isinstance(selector, str) else ""
        try:
            sent = submit(
                self.tree,
                self._element(selector),
                fields or {},
                click=click if isinstance(click, bool) else self._element(click),
                url=self.url,
                base=self.base,
                codec=self.codec,
            )
        except FormError as error:
            raise SpiderError(f"page.submit_form({shown}) on {self.url}: {error}") from None
        options |= {"method": sent.method, "body": sent.body}
        if sent.content_type:
            options["headers"] = {"Content-Type": sent.content_type, **(options.get("headers") or {})}
        return self.follow(sent.url, handler, **options)

    def _element(self, found: str | Node) -> LexborNode:
        node = self.first(found) if isinstance(found, str) else found
        if node is None:
            raise FormError(f"nothing matches {found!r}; the page has {len(self.tree.tags('form'))} forms")
        if not isinstance(node, LexborNode):
            raise FormError(f"it takes an element of an HTML page, not a {type(node).__name__}")
        return node

    def follow_all(
        self,
        targets: str | Iterable[str | Node | HeaderLink] | None = None,
        handler: HandlerLike = None,
        **options: Unpack[FollowOptions],
    ) -> list[Request]:
        """Requests to yield: one for every element that matches a selector, or for every given URL or element; without
        either, for all that `links` finds.

        Elements that point nowhere are passed over. Options are those of `follow`.
        """
        if targets is None or isinstance(targets, str):
            urls: Iterable[str] = self._targets(targets)
        else:
            given = (
                target
                if isinstance(target, str)
                else target.url
                if isinstance(target, HeaderLink)
                else target_of(target)
                for target in targets
            )
            urls = self._as_sent([url for url in given if url])
        if options:
            return [self.follow(url, handler, **options) for url in urls]
        return links_to(urls, self.handler if handler is None else handler_name(handler), self.base)

    def _all_links(self) -> PageLinks:
        """What `follow_all()` gives, for a handler that only passes it on."""
        return PageLinks(self._targets(None), self.handler, self.base)

    def paginate(
        self,
        next: str | None = None,
        handler: HandlerLike = None,
        *,
        param: str | None = None,
        total: int | str | None = None,
        count: str | None = None,
        per_page: int | None = None,
        first: int = 1,
        **options: Unpack[FollowOptions],
    ) -> list[Request]:
        """Requests for the other pages of a list, at this page's depth. One of:

        - `paginate("li.next a")`: the page that the next-link points to
        - `paginate(param="page", total=12)`: ?page=2 … ?page=12, from the first page
        - `paginate(param="page", total="span.pages")`: the same, the number read from the page
        - `paginate(param="page", count="span.results", per_page=20)`: the same, from the number of results
        """
        options.setdefault("depth", self.depth)
        if next is not None and param is None:
            return self.follow_all(next, handler, **options)
        if next is not None or param is None:
            raise ValueError(
                "page.paginate() takes a selector of the next-link, or param=… with total=… or count=…"
            )
        pages = self._pages(total, count, per_page)
        return self.follow_all(page_urls(self.url, param, first, pages), handler, **options)

    def _pages(self, total: int | str | None, count: str | None, per_page: int | None) -> int:
        if isinstance(total, int):
            return total
        if total is not None:
            found = largest_number(self.text(total)) or 0
        elif count is not None and per_page is not None and per_page > 0:
            found = -(-(largest_number(self.text(count)) or 0) // per_page)
        else:
            raise ValueError("page.paginate(param=…) needs total=…, or count=… and per_page=…")
        return min(found, MAX_DETECTED_PAGES)

    def _targets(self, selector: str | None) -> list[str]:
        if selector is None and not self.is_xml:
            return self._as_sent(targets_in(self.tree))
        quick = selector == "a" and not self.is_xml
        nodes = self.tree.tags("a") if quick else self.css(selector or "a")
        return self._as_sent([target for node in nodes if (target := target_of(node))])

    def _as_sent(self, targets: list[str]) -> list[str]:
        """Links on a page in a legacy encoding have their query in it."""
        codec = self.codec
        return [in_encoding(target, codec) for target in targets] if is_legacy(codec) else targets


def _no_selector(selector: str) -> ValueError:
    plain, colons, ending = selector.partition("::")
    hint = ""
    if ending.startswith("text"):
        hint = f"; the text is page.text({plain!r}), or page.texts({plain!r}) for every match"
    elif ending.startswith("attr("):
        name = ending[5:].partition(")")[0].strip("\"' ")
        hint = f"; the attribute is page.attr({plain!r}, {name!r}), or page.attrs(…) for every match"
    elif colons:
        hint = "; there are no pseudo-elements here"
    return ValueError(f"not a CSS selector: {selector!r}{hint}")


def _text_of(node: Node) -> str:
    return readable_text(node) if isinstance(node, LexborNode) else squeeze(node.text())


def _target(node: Node) -> str:
    if not isinstance(node, LexborNode | XmlNode):
        raise TypeError(f"page.follow() takes a URL or an element, not a {type(node).__name__}")
    target = target_of(node)
    if not target:
        raise ValueError(f"page.follow() got a <{node.tag}> that has neither href nor src")
    return target

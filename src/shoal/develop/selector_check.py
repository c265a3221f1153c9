"""Whether the selectors of a spider can be read, and what they find on saved pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from multidict import CIMultiDict

from shoal.archive.saved_page import read_saved, saved_in
from shoal.develop.findings import Finding
from shoal.develop.spider_code import Code, SelectorUse
from shoal.errors import ShoalError
from shoal.html.xml_css import planned
from shoal.model import Response, Task
from shoal.spider.page import Page
from shoal.spider.spider import shown
from shoal.text.humanize import plural

PAGES = Path("tests/pages")
_SUFFIXES = (".html", ".htm", ".xhtml", ".xml")
_SUBJECT = "selectors"
_STEP = re.compile(r"\.?/(?!/)|\.$")  # how a path from an element begins: ./a, /a


def saved_pages(folder: Path) -> tuple[list[Page], list[Finding]]:
    """The pages of a folder, and those that cannot be read."""
    pages: list[Page] = []
    unreadable: list[Finding] = []
    plain = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    for path in sorted({*saved_in(folder), *plain}) if folder.is_dir() else ():
        try:
            saved = read_saved(path)
        except ShoalError as error:
            unreadable.append(
                Finding(_SUBJECT, "wrong", str(error), "keep it again with shoal keep", shown(str(path)))
            )
            continue
        pages.append(Page(saved.task, saved.response, ""))
    return [page for page in pages if page.is_html or page.is_xml], unreadable


def check_selectors(codes: Iterable[Code], pages: Sequence[Page], folder: Path) -> Iterator[Finding]:
    uses = [(code, use) for code in codes for use in code.selectors]
    if not uses:
        yield Finding(_SUBJECT, "ok", "no selectors in the code")
        return
    fine = tried = 0
    for code, use in uses:
        where = f"{shown(str(code.path))}:{use.line}"
        if problem := unreadable(use):
            yield Finding(_SUBJECT, "wrong", problem[0], problem[1], where)
            continue
        fine += 1
        if pages and not any(finds(use, page) for page in pages):
            found = f"{use.kind} {use.text!r} finds nothing on {_number(pages, folder)}"
            yield Finding(
                _SUBJECT,
                "warning",
                found,
                "look at a page with shoal shell, or keep one where it finds something",
                where,
            )
        else:
            tried += bool(pages)
    if not pages:
        yield Finding(
            _SUBJECT,
            "ok",
            f"{fine} of {plural(len(uses), 'selector')} can be read; none was tried: no saved pages in {folder}",
            f"shoal keep URL {folder} saves one",
        )
    elif fine:
        yield Finding(
            _SUBJECT,
            "ok",
            f"{fine} of {plural(len(uses), 'selector')} can be read, {tried} find something"
            f" on {_number(pages, folder)}",
        )


def _number(pages: Sequence[Page], folder: Path) -> str:
    return f"the saved page in {folder}" if len(pages) == 1 else f"the {len(pages)} saved pages in {folder}"


def unreadable(use: SelectorUse) -> tuple[str, str] | None:
    """What is wrong with a selector, and what to do about it; None: it can be read."""
    return _no_xpath(use.text) if use.kind == "xpath" else _no_css(use.text)


def _no_css(selector: str) -> tuple[str, str] | None:
    try:
        _EMPTY.css(selector)
        return None
    except ValueError as error:
        said = str(error)
    try:
        planned(selector)  # with the prefix of an XML namespace
        return None
    except ValueError:
        problem, _, hint = said.partition("; ")
        return problem, hint or "mend the selector"


def _no_xpath(expression: str) -> tuple[str, str] | None:
    try:
        from lxml.etree import XPath, XPathSyntaxError
    except ImportError:
        return "page.xpath needs lxml, which is not installed", "pip install 'shoal[xpath]'"
    try:
        XPath(expression)
    except XPathSyntaxError as error:
        return f"not an XPath expression: {expression!r} ({error})", "mend the expression"
    return None


def finds(use: SelectorUse, page: Page) -> bool:
    """Whether it finds something anywhere on the page: it may be meant for an element that another one found."""
    try:
        if use.kind == "css":
            return page.first(use.text) is not None
        return any(_is_found(page.xpath(expression)) for expression in _anywhere(use.text))
    except (ValueError, ImportError):
        return False  # a selector for XML, and the page is HTML, or the other way round
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "lxml":
            return False  # a prefix or variable that this page does not know
        raise


def _anywhere(expression: str) -> Iterator[str]:
    yield expression
    if _STEP.match(expression):
        yield "//*" + expression.removeprefix(".")
    elif not expression.startswith(("/", "(", ".")) and "(" not in expression.partition("/")[0]:
        yield f"//*/{expression}"


def _is_found(found: object) -> bool:
    return found not in (False, "", [], None)


_EMPTY = Page(
    Task("http://localhost/"),
    Response("http://localhost/", 200, CIMultiDict({"Content-Type": "text/html"}), b""),
    "",
)

"""Shows a page in the browser of whoever is at the machine."""

from __future__ import annotations

import html
import logging
import mimetypes
import re
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.spider.page import Page

log = logging.getLogger("shoal")

# What may stand before a doctype, and the doctype. Parsers take what follows for the head, with and without its tag.
_BEGIN = re.compile(r"(?:\s|<\?xml[^>]*>|<!--[^>]*-->)*<!doctype[^>]*>", re.IGNORECASE)
_NO_SCRIPTS = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'; object-src 'none'">"""


def view(page: Page) -> Path:
    """Opens the page as it was fetched, and returns the file that the browser was given. Scripts of the page do not
    run: the browser shows what selectors see. Styles and images come from the site."""
    path = Path(tempfile.mkdtemp(prefix="shoal-view-")) / f"page{_suffix(page)}"
    if page.is_html:
        # The mark at the beginning says that it is UTF-8, whatever the page declares.
        path.write_text(_standing_alone(page), "utf-8-sig", "replace")
    else:
        path.write_bytes(page.body)
    if not webbrowser.open(path.as_uri()):
        log.warning("no browser could be opened; the page is in %s", path)
    return path


def _suffix(page: Page) -> str:
    if page.is_html:
        return ".html"
    return ".xml" if page.is_xml else mimetypes.guess_extension(page.content_type) or ".txt"


def _standing_alone(page: Page) -> str:
    """The page with its address, and without scripts. The doctype stays first: without, it would look different."""
    text = page.html
    begin = _BEGIN.match(text)
    at = begin.end() if begin else 0
    base = html.escape(page.base, quote=True)
    return f'{text[:at]}<base href="{base}">{_NO_SCRIPTS}{text[at:]}'

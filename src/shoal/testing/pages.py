"""Pages for tests: from a text, from a file, or from a file that `shoal keep` saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace
from multidict import CIMultiDict

from shoal.admit.identity import host_key
from shoal.admit.sending import sent_url
from shoal.archive.saved_page import DEFAULT_URL, SavedPage, read_saved
from shoal.errors import UrlError, UsageError
from shoal.model import Response, Task
from shoal.spider.page import Page

# HTML, XML or JSON as text; a body as bytes; a value that is to be JSON; the path of a file.
Content: TypeAlias = str | bytes | Path | Mapping[str, Any] | list[Any]

_BODIES = ("<", "{", "[")  # how a text begins that is no path


def page(
    content: Content,
    url: str | None = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    handler: str = "",
    meta: dict[str, Any] | None = None,
    depth: int = 0,
) -> Page:
    """A page to call a handler with.

    `content` is HTML, XML or JSON, or the path of a file. Of a page that `shoal keep` saved, URL, status and headers
    are read, too; what is given here wins. A text is a path unless it begins with "<", "{" or "[", or has several
    lines.
    """
    saved = saved_content(content, url)
    task, response = saved.task, saved.response
    task = replace(task, host=host_key(task.url), handler=handler, meta=meta, depth=depth)
    response = replace(
        response,
        status=response.status if status is None else status,
        headers=response.headers if headers is None else _merged(response.headers, headers),
    )
    return Page(task, response, handler, saved.at)


def saved_content(content: Content, url: str | None) -> SavedPage:
    """The content as if it had been saved."""
    if isinstance(content, Path) or (isinstance(content, str) and not _is_body(content)):
        saved = _read(Path(content))
        if url is None:
            return saved
        url = checked_url(url)
        # Redirects that led to another URL did not lead to this one.
        task = saved.task if url == saved.task.url else Task(url)
        return replace(saved, task=task, response=replace(saved.response, url=url))
    url = checked_url(url or DEFAULT_URL)
    body, kind = _body(content)
    response = Response(url, 200, CIMultiDict({"Content-Type": kind}), body)
    return SavedPage(Task(url), response, 0.0, Path())


def checked_url(url: str) -> str:
    """The URL as it is sent."""
    sent = sent_url(url)
    if sent is None:
        raise UrlError(f"{url!r} is not the URL of a page; write it with https://")
    return sent


def _is_body(text: str) -> bool:
    return "\n" in text or text.lstrip().startswith(_BODIES) or not text.strip()


def _read(path: Path) -> SavedPage:
    if not path.is_file():
        raise UsageError(
            f"there is no file {path} in {Path.cwd()}; give the path of a page, or its content "
            "(as bytes, if it is plain text)"
        )
    return read_saved(path)


def _body(content: Content) -> tuple[bytes, str]:
    """The body, and its media type."""
    if isinstance(content, bytes):
        return content, "text/html"
    if isinstance(content, Mapping | list):
        return msgspec.json.encode(content), "application/json"
    if not isinstance(content, str):
        kind = type(content).__name__
        raise UsageError(
            f"a page cannot be made of a {kind}; give a text, bytes, the path of a file, a dict or a list"
        )
    beginning = content.lstrip()
    if beginning.startswith(("{", "[")):
        return content.encode(), "application/json"
    if beginning.startswith("<?xml"):
        return content.encode(), "application/xml"
    return content.encode(), "text/html; charset=utf-8"


def _merged(known: Mapping[str, str], given: Mapping[str, str]) -> CIMultiDict[str]:
    headers = CIMultiDict(known)
    headers.update(given)
    return headers

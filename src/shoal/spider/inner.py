"""Requests inside a handler: what the handler is given, and how they fail."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from shoal.errors import SpiderError, one_line
from shoal.model.request import Request
from shoal.text import shown_url, without_secrets

if TYPE_CHECKING:
    from shoal.spider.page import Page

T = TypeVar("T")


class FetchFailed(Exception):
    """Raised by `await page.fetch(…)`: there is no page.

    If the handler does not catch it, its own page counts as one that could not be fetched: it is tried again later or
    given up, by `kind`.
    """

    def __init__(
        self,
        url: str,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        page: Page | None = None,
        after: float | None = None,
        counts: bool = True,
    ) -> None:
        self.url = url
        self.kind = kind  # as in policy/outcomes.py: "timeout", "http_404", "robots" …
        self.detail = one_line(without_secrets(detail))
        self.status = status  # of the answer, if there was one
        self.page = page  # … and the answer itself
        self.after = after  # seconds after which it may work
        self.counts = counts  # as an attempt of the page whose handler asked
        super().__init__(f"{shown_url(url)}: {self.detail}")


def fetch_failed_in(error: BaseException) -> FetchFailed | None:
    """The error of a request; also if a task group has raised it, and nothing else."""
    if isinstance(error, FetchFailed):
        return error
    if not isinstance(error, BaseExceptionGroup) or not error.exceptions:
        return None
    found = [fetch_failed_in(one) for one in error.exceptions]
    return None if None in found else found[0]


class File(Struct, frozen=True):
    """A downloaded file."""

    url: str  # where it was found, after redirects
    path: str
    name: str
    sha256: str  # of its bytes, in hex
    size: int
    type: str  # the media type that the server gave; "": none


class Inner(Protocol):
    """What a page asks to send requests."""

    async def fetch(self, request: Request) -> Page: ...

    async def download(self, request: Request, to: str, name: str) -> File: ...


class Unawaited(Coroutine[Any, Any, T]):
    """What `page.fetch(…)` gives before `await`: a coroutine, which begins when it is awaited or made a task. Whoever
    uses it without gets an error that says so."""

    __slots__ = ("_begin", "_begun", "_call")

    def __init__(self, call: str, begin: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._begin = begin
        self._begun: Coroutine[Any, Any, T] | None = None

    def __repr__(self) -> str:
        return f"<{self._call}, not awaited>"

    def __await__(self) -> Generator[Any, None, T]:
        return self._begin().__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine().send(value)

    def throw(self, *args: Any) -> Any:
        return self._coroutine().throw(*args)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()

    def _coroutine(self) -> Coroutine[Any, Any, T]:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    if not TYPE_CHECKING:  # type checkers see that it has no such attribute

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            raise self.error()

    def error(self) -> SpiderError:
        return SpiderError(
            f"{self._call} was used without await: write `await {self._call}` in a handler that begins with `async def`"
        )

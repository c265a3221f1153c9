"""What a user writes: where to start, and functions that turn pages into items and further requests.

    spider = Spider("books", start="https://books.example/", rate=2)

    @spider.handler
    def listing(page): ...

A task is stored with the name of its handler, so that any process that loads the same spider can go on with it.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from inspect import isawaitable
from itertools import chain
from pathlib import Path
from threading import Semaphore, Thread
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    GeneratorType,
    TracebackType,
    UnionType,
)
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec import Struct

from shoal.admit.sending import listed_url
from shoal.errors import SettingsError, ShoalError, SpiderError, UsageError
from shoal.limits import REQUEST_NUMBER, START_LINE, URL_SHOWN
from shoal.model import CHANGES, DEFAULT_LANE
from shoal.model.built_in import BUILT_IN, is_built_in
from shoal.model.pace import read_pace
from shoal.model.request import HANDLER_NAME, Request, is_storable, name_of_handler
from shoal.settings import Settings
from shoal.spider.hooks import HookDecorators, objects_among, problem_of_handler
from shoal.spider.login import Accounts, Login, make_login
from shoal.spider.redefining import is_redefined
from shoal.spider.schemas import Schema, schemas_of
from shoal.spider.start_sources import Source, check_apart
from shoal.spider.start_tables import Table, as_text, is_marked, unreadable, without_marks
from shoal.spider.state import State
from shoal.text import error_line

if TYPE_CHECKING:
    from shoal.settings.keywords import SpiderSettings
    from shoal.spider.arguments import MadeBy
    from shoal.spider.page import Page

Function: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Function)
STDIN = Path("-")
Items: TypeAlias = str | type | Sequence[type] | UnionType  # a table's name; a class of items, or several
Start: TypeAlias = (
    str | Path | Source | Table | Sequence[str | Request | Path | Source | Table] | Callable[[], object]
)


class Handler(Struct, frozen=True):
    """A handler function, and how its pages are queued."""

    name: str
    function: Function
    key: tuple[str, ...] | None = None  # fields that identify an item; it is then written once
    lane: str = DEFAULT_LANE
    priority: int = 0
    item: str = ""  # the kind of its items, which is the table of a database; "": the handler's name
    pool: str = ""  # the proxy pool of its pages; "": as in the settings
    country: str = ""  # that their proxies are to be in; "": any
    wait_for: str = ""  # in a browser: "load", "quiet", or a CSS selector; "": as in the settings
    schemas: tuple[Schema, ...] = ()  # the classes of its items; none: any item will do
    files: tuple[str, ...] = ()  # fields of its items with URLs of files to download
    revisit: str = ""  # when its pages are visited again: "1h", "auto", "never"; "": as in the settings


class HandlerOptions(TypedDict, total=False):
    """The options of `@spider.handler`; see `Handler`."""

    name: str | None
    key: str | Sequence[str] | None
    lane: str
    priority: int
    item: Items
    pool: str
    country: str
    wait_for: str
    files: str | Sequence[str]
    revisit: str


class Spider(HookDecorators):
    """A spider: where to start, handlers that turn pages into items and requests, hooks, and settings of its own.

    `name` names its jobs. `start` is a URL, a list of URLs or requests, a `pathlib.Path` to a file with one URL a
    line (UTF-8; what follows a tab is left out), a `Sitemap`, `Feed` or `Table`, or a function that returns or
    yields them. `settings` are those of docs/settings.md; the command line and the environment win over them.
    """

    __slots__ = (
        "handlers",
        "logs_in",
        "made_by",
        "name",
        "plugins",
        "route",
        "settings",
        "start",
        "start_is_typed",
        "state",
    )

    def __init__(self, name: str, start: Start = (), **settings: Unpack[SpiderSettings]) -> None:
        if not isinstance(name, str) or not name.strip():
            raise SpiderError(f"a spider needs a name, not {name!r}: Spider('books', start=…)")
        if not isinstance(start, str | Path | list | tuple | Source | Table) and not callable(start):
            raise SpiderError(
                f"spider {name!r}: start is a {type(start).__name__}; give a URL, a list of URLs, "
                "a pathlib.Path to a file of URLs, a Sitemap, Feed or Table, or a function that yields them"
            )
        if isinstance(start, list | tuple):
            check_apart(start)
        self.settings: dict[str, object] = {**settings}
        _check_settings(name, self.settings)
        super().__init__()
        self.name = name
        self.start = start
        self.plugins = objects_among(self.settings)
        self.handlers: dict[str, Handler] = {}
        self.logs_in: Login | None = None  # how to log in
        self.made_by: MadeBy | None = None  # the factory that made it, with the arguments of the command line
        self.route: Callable[[str, Path | None], str] | None = (
            None  # the handler of a start URL, and its file
        )
        self.start_is_typed = True  # its start stands in code that a person wrote, and is trusted like it
        self.state = State()  # small values that all processes of a job share; see docs/spiders.md

    def __repr__(self) -> str:
        return f"<Spider {self.name!r}: {', '.join(self.handlers) or 'no handlers'}>"

    def fitted(self, settings: Settings) -> Spider:
        """The spider for a job with these settings; for a spider of a person's own, the same."""
        return self

    # -- handlers

    @overload
    def handler(self, function: F, /) -> F: ...

    @overload
    def handler(self, /, **options: Unpack[HandlerOptions]) -> Callable[[F], F]: ...

    def handler(self, function: Function | None = None, /, **options: Unpack[HandlerOptions]) -> Function:
        """Decorator: registers a function as a handler, under its name. The first handler gets the start URLs.

        It is used bare, as `@spider.handler`, or with the options of `add_handler`: `@spider.handler(key="upc")`.
        """

        for option in options:
            if option not in HandlerOptions.__annotations__:
                near = difflib.get_close_matches(option, HandlerOptions.__annotations__, 1)
                hint = (
                    f"did you mean {near[0]}=?"
                    if near
                    else f"there are {', '.join(HandlerOptions.__annotations__)}"
                )
                raise SpiderError(f"spider {self.name!r}: a handler has no option {option!r}; {hint}")

        def register(function: Function) -> Function:
            self.add_handler(function, **options)
            return function

        return register if function is None else register(function)

    def add_handler(
        self,
        function: Function,
        *,
        name: str | None = None,
        key: str | Sequence[str] | None = None,
        lane: str = DEFAULT_LANE,
        priority: int = 0,
        item: Items = "",
        pool: str = "",
        country: str = "",
        wait_for: str = "",
        files: str | Sequence[str] = (),
        revisit: str = "",
    ) -> Handler:
        """Registers a function as a handler, as `@spider.handler` does.

        - `name`: the name that tasks are stored with; the function's own name, if none is given
        - `key`: one or several fields that identify an item; of items with the same key, the first is written
        - `lane`, `priority`: how its pages are queued
        - `item`: the class of its items, or several, by which they are checked; or the name of their kind, which is the
          table of a database
        - `pool`, `country`: the proxies that its pages go through
        - `wait_for`: in a browser, when a page is complete: "load", "quiet", or a CSS selector
        - `files`: fields of its items with URLs of files, which are downloaded
        - `revisit`: when its pages are visited again: "1h", "auto" (as often as they change), or "never"
        """
        name = self._new_name(function, name)
        where = f"spider {self.name!r}: handler {name!r}"
        texts = {"lane": lane, "pool": pool or "", "country": country or "", "wait_for": wait_for or ""}
        _check_texts(where, texts | {"revisit": revisit})
        if not isinstance(priority, int) or not is_storable(priority):
            raise SpiderError(f"{where}: its priority must be a whole number, {REQUEST_NUMBER:,} at most")
        if problem := problem_of_handler(function, name):
            raise SpiderError(f"{where} {problem}")
        keys = _names(where, "key", key) or None
        try:
            schemas = () if isinstance(item, str) else schemas_of(item)
        except SpiderError as error:
            raise SpiderError(f"{where}: {error}") from None
        kind = item if isinstance(item, str) else schemas[0].table if len(schemas) == 1 else ""
        if CHANGES in ([schema.table for schema in schemas] or [kind or name]):
            raise SpiderError(
                f"{where}: items of the kind {CHANGES!r} are those that tell what has changed on "
                "pages; give yours another name with item='…'"
            )
        fields = _names(where, "files", files)
        try:
            read_pace(revisit, 1.0, 1.0)
        except ValueError as error:
            raise SpiderError(f"{where}: its revisit cannot be used: {error}") from None
        handler = Handler(
            name, function, keys, lane, priority, kind, pool, country, wait_for, schemas, fields, revisit
        )
        self.handlers[name] = handler
        _remember_name(function, name)
        return handler

    def _new_name(self, function: Function, name: str | None) -> str:
        where = f"spider {self.name!r}"
        if not callable(function):
            raise SpiderError(f"{where}: a handler is a function, not {function!r}")
        name = name or getattr(function, "__name__", "")
        if not name:
            raise SpiderError(f"{where}: {function!r} has no name; give one with name=…")
        _check_texts(f"{where}: handler {name!r}", {"name": name})
        if is_built_in(name):
            raise SpiderError(
                f"{where}: {name!r}: names that begin with {BUILT_IN} are taken; give another name=…"
            )
        if name in self.handlers and not is_redefined(self.handlers[name].function, function):
            raise SpiderError(f"{where} already has a handler named {name!r}; give this one another name=…")
        return name

    def login(
        self,
        logged_out: str | Callable[[Page], object] | None = None,
        *,
        logged_out_status: int | Sequence[int] = 401,
        logged_out_url: str | None = None,
        accounts: Accounts = (),
    ) -> Callable[[F], F]:
        """Decorator: the function logs a session in, before its first page and again when it is logged out.

        - `logged_out`: how to tell a page that is shown to somebody who is not logged in: a CSS selector, or a
          function of the page
        - `logged_out_status`: the same, by the status of the answer
        - `logged_out_url`: the same, by the URL of a redirect: a regular expression
        - `accounts`: several sessions: dicts with a `name`, or a function that returns them
        """

        def register(function: F) -> F:
            if self.logs_in is not None and not is_redefined(self.logs_in.function, function):
                raise SpiderError(f"spider {self.name!r} has a login already; give it accounts=… for several")
            self.logs_in = make_login(
                function,
                logged_out,
                logged_out_status=logged_out_status,
                logged_out_url=logged_out_url,
                accounts=accounts,
            )
            return function

        return register

    def handler_named(self, name: str) -> Handler:
        """The handler of that name; "" is the first one. All spiders have the ones that read sitemaps and feeds."""
        if not self.handlers:
            raise SpiderError(
                f"spider {self.name!r} has no handler: write a function and put @spider.handler above it"
            )
        if not name:
            return next(iter(self.handlers.values()))
        if name in self.handlers:
            return self.handlers[name]
        if is_built_in(name):
            from shoal.spider.source_handlers import HANDLERS

            if name in HANDLERS:
                return HANDLERS[name]
        raise SpiderError(
            f"spider {self.name!r} has no handler named {name!r}; it has {', '.join(self.handlers)}"
        )

    def has_handler(self, name: str) -> bool:
        """Whether there is a handler of that name, one that all spiders have included."""
        return not name or name in self.handlers or is_built_in(name)

    # -- start

    def start_urls_known(self) -> list[str]:
        """The start URLs in the code itself, not those in a file or from a function."""
        if not self.start_is_typed:
            return []
        if callable(self.start):
            return []
        urls = (entry.url if isinstance(entry, Request | Source) else entry for entry in self.listed_starts())
        return [url for url in urls if isinstance(url, str)]

    def listed_starts(self) -> Sequence[str | Request | Path | Source | Table]:
        """The start, if it is no function, as a list."""
        assert not callable(self.start)
        return self.start if isinstance(self.start, list | tuple) else [self.start]

    def starts_anew(self) -> bool:
        """Whether its start is always read from the beginning: a function, a query, or standard input, which may differ
        from the last time."""
        if callable(self.start) or self.reads_stdin():
            return True
        return any(isinstance(entry, Table) and entry.is_query for entry in self.listed_starts())

    def reads_stdin(self) -> bool:
        return (
            not callable(self.start)
            and not isinstance(self.start, str | Path)
            and STDIN in self.listed_starts()
        )

    async def starts(
        self, skip: int = 0, at: StartPlace | None = None
    ) -> AsyncGenerator[tuple[int, Request, bool], None]:
        """Every start request with its position, counted from 1, without the first `skip`; and whether a person typed
        it in the code or the command, and not in a file or a function.

        Files and functions are read as they are consumed, so they may be larger than memory or endless. Invalid URLs
        are passed on: admission refuses and counts them. Close the generator (`aclosing`) when you stop early. `at`
        follows the position. Errors of a function become a SpiderError with its position.
        """
        at = at or StartPlace()
        async with aclosing(self._entries(at)) as entries:
            async for entry, typed in entries:
                at.position += 1
                if at.position > skip:
                    yield at.position, self._request(entry, at), typed

    async def _entries(self, at: StartPlace) -> AsyncGenerator[tuple[object, bool], None]:
        if not callable(self.start):
            for entry in self.listed_starts():
                if isinstance(entry, Table):
                    async with aclosing(entry.requests(at)) as requests:
                        async for request in requests:
                            yield request, False
                    continue
                if entry == STDIN:
                    async with aclosing(lines_of_stdin()) as lines:
                        async for url in _urls_in(lines, at):
                            yield url, False
                    continue
                is_file = isinstance(entry, Path)
                for line in _expand([entry], at):
                    yield line, self.start_is_typed and not is_file
            return
        try:
            async with aclosing(self._produced(at)) as entries:
                async for made in entries:
                    yield made, False
        except ShoalError as error:
            raise SpiderError(f"{place_of_error(error) or at}: {error}") from error
        except (Exception, SystemExit) as error:
            said = error_line(error)
            after = f" after start request {at.position:,}" if at.position else ""
            where = place_of_error(error) or at
            raise SpiderError(f"{where}: the start of spider {self.name!r} failed{after}: {said}") from error

    async def _produced(self, at: StartPlace) -> AsyncGenerator[object, None]:
        """The entries of the start function."""
        assert callable(self.start)
        at.producing = self.start
        at.producing = produced = self.start()
        if isawaitable(produced):
            at.producing = produced = await produced
        if isinstance(produced, list | tuple | str):
            at.producing = self.start
        if isinstance(produced, AsyncGenerator):
            async with aclosing(produced):
                async for entry in produced:
                    yield entry
        elif isinstance(produced, AsyncIterable):
            async for entry in produced:
                yield entry
        else:
            for entry in _expand(self._iterable(produced), at):
                yield entry

    def _iterable(self, produced: object) -> Iterable[object]:
        if isinstance(produced, str):
            return [produced]
        if isinstance(produced, Iterable):
            return produced
        raise SpiderError(
            f"spider {self.name!r}: start() returned a {type(produced).__name__}; yield URLs or Requests from it"
        )

    def _request(self, entry: object, at: StartPlace) -> Request:
        if isinstance(entry, str):
            return Request(entry, "" if self.route is None else self.route(entry, at.file))
        if isinstance(entry, Request):
            return entry
        if isinstance(entry, Source):
            return entry.request()
        raise SpiderError(
            f"{at}: spider {self.name!r}: start gave a {type(entry).__name__}; give URLs (str) or Requests"
        )


def handler_name(handler: Function | Handler | str) -> str:
    """The name of a handler that is given to `page.follow` as a function, a Handler or a name."""
    if isinstance(handler, str):
        return handler
    if isinstance(handler, Handler):
        return handler.name
    return name_of_handler(handler)


def _check_texts(where: str, options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if not isinstance(value, str):
            raise SpiderError(f"{where}: its {option} is {value!r}; give a text (str)")


def _names(where: str, option: str, given: object) -> tuple[str, ...]:
    """The names of fields in an option of a handler: one, or several."""
    if isinstance(given, str):
        return (given,)
    names = tuple(given) if isinstance(given, Iterable) else (given,) if given else ()
    for name in names:
        if not isinstance(name, str):
            raise SpiderError(
                f"{where}: its {option} has {name!r}; give the name of a field, or a list of names"
            )
    return names


def _remember_name(function: Function, name: str) -> None:
    try:
        setattr(getattr(function, "__func__", function), HANDLER_NAME, name)
    except (AttributeError, TypeError):  # it takes no attributes: it can be followed by name only
        pass


def _check_settings(spider: str, settings: dict[str, object]) -> None:
    for name in settings:
        if name not in Settings.__struct_fields__:
            near = difflib.get_close_matches(name, ["start", *Settings.__struct_fields__], 1)
            hint = f"did you mean {near[0]!r}?" if near else "see docs/settings.md"
            raise SettingsError(f"spider {spider!r}: unknown setting {name!r}; {hint}")


def _expand(entries: Iterable[object], at: StartPlace) -> Iterator[object]:
    """The entries, with the lines of a file instead of its path."""
    for entry in entries:
        if isinstance(entry, Path):
            yield from _lines(entry, at)
        else:
            yield entry


def _url_in(line: str, at: StartPlace) -> str:
    """The URL in a line; "" if it is blank or a comment. Concatenated files may have byte-order marks in the middle.

    Of a line with tabs, which somebody copied out of a spreadsheet, the first column counts: a URL has no tab in it,
    and browsers, which leave tabs out, would make one word of the URL and its neighbour. Lines of JSON may have tabs.
    """
    at.line += 1
    at.cut = len(line) > START_LINE
    url = line.removeprefix("\ufeff").strip()
    if url.startswith("#"):
        return ""
    if at.cut:
        return without_marks(url[:URL_SHOWN])
    if is_marked(url):
        return unreadable(url)
    return listed_url(url if url.startswith("{") else url.partition("\t")[0].rstrip())


async def _urls_in(lines: AsyncIterable[str], at: StartPlace) -> AsyncGenerator[str, None]:
    at.file, at.line = STDIN, 0
    async for line in lines:
        if url := _url_in(line, at):
            yield url
    at.file, at.cut = None, False


def _lines(path: Path, at: StartPlace) -> Iterator[str]:
    try:
        with path.open("rb") as opened, as_text(opened) as file:
            at.file, at.line = path, 0
            for line in bounded_lines(file):
                if url := _url_in(line, at):
                    yield url
    except OSError as error:
        raise SpiderError(f"cannot read the start URLs from {path}: {error.strerror or error}") from error
    finally:
        at.file, at.cut = None, False


# -- lists of URLs by lines, and standard input as a stream of them


_LINES_AHEAD = 10_000  # lines that are read in advance


def bounded_lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream. A longer one is cut to START_LINE + 1 characters, so that the cut can be seen; the rest is
    skipped, since it may be larger than memory."""
    while line := stream.readline(START_LINE + 1):
        yield line
        while len(line) > START_LINE and not line.endswith("\n"):
            line = stream.readline(START_LINE + 1)


async def lines_of_stdin() -> AsyncGenerator[str, None]:
    """The lines of standard input as they arrive. A daemon thread reads it: a pipe may be silent for hours, and the
    command may end before its input."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    room = Semaphore(_LINES_AHEAD)

    def read() -> None:
        with open(os.dup(0), "rb") as opened, as_text(opened) as stream:
            for line in chain(bounded_lines(stream), [""]):
                room.acquire()
                try:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                except RuntimeError:
                    return  # the loop has ended

    Thread(target=read, name="shoal-stdin", daemon=True).start()
    while line := await lines.get():
        room.release()
        yield line


# -- positions in the user's code or files, such as "books.py:12", for messages


_OWN = str(Path(__file__).parents[1]) + os.sep
_PYTHON = str(Path(os.__file__).parent) + os.sep
_CAUSES = 20  # errors of a chain that are looked at
_PROMPTS = ("<ipython-input-", "<python-input-", "<stdin>")


def check_spider(value: object) -> None:
    """Raises if it is something else, such as a URL, or the function that makes the spider."""
    if not isinstance(value, Spider):
        called = "; call it with its arguments" if callable(value) else "; Spider(name, start=URL) makes one"
        raise UsageError(f"a spider is needed, and this is a {type(value).__name__}{called}")


def users_error(error: BaseException) -> BaseException:
    """The error, or the cause of it that was raised in the user's own code: a StopIteration that leaves a handler
    becomes a RuntimeError, whose traceback has no line of the handler."""
    found: BaseException | None = error
    for _ in range(_CAUSES):
        if found is None:
            break
        if _users_part(found.__traceback__) is not None:
            return found
        found = found.__cause__
    return error


def place_of_error(error: BaseException, where: str = "") -> str:
    """The last line of the user's own code in the traceback, or else in that of a cause; if possible in the file
    `where`."""
    frames = traceback.extract_tb(users_error(error).__traceback__)
    users = [f for f in frames if _is_users(f.filename)]
    users = [f for f in users if f.filename == where] or users
    return f"{shown(users[-1].filename)}:{users[-1].lineno}" if users else where


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the first line of the user's own code on: without the part of Shoal that called it."""
    return _users_part(error.__traceback__)


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and not _is_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_users(path: str) -> bool:
    if path.startswith("<"):  # made at run time, unless somebody has typed it
        return path.startswith(_PROMPTS)
    return not path.startswith(_OWN) and not _in_python(path)


def _in_python(path: str) -> bool:
    """Whether the file is of Python's own library."""
    return path.startswith(_PYTHON) and "site-packages" not in path


def place_of_code(value: object) -> str:
    """Where a generator or coroutine is now, or where a function begins; "" if that is not known."""
    frame, code = _code_of(value)
    if code is None:
        return ""
    return f"{shown(code.co_filename)}:{frame.f_lineno if frame else code.co_firstlineno}"


def _code_of(value: object) -> tuple[FrameType | None, CodeType | None]:
    if isinstance(value, GeneratorType):
        return value.gi_frame, value.gi_code
    if isinstance(value, AsyncGeneratorType):
        return value.ag_frame, value.ag_code
    if isinstance(value, CoroutineType):
        return value.cr_frame, value.cr_code
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    return None, code if isinstance(code, CodeType) else None


def place_of_users(value: object) -> str:
    """As `place_of_code`, and "" for what is not the user's own code: the handlers of a TOML file and of sitemaps."""
    _, code = _code_of(value)
    return place_of_code(value) if code is not None and _is_users(code.co_filename) else ""


def shown(path: str) -> str:
    """A relative path if it is below the current folder."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path


class StartPlace:
    """The position in the start while it is read: in a file, in a function, or at a request in the code."""

    def __init__(self) -> None:
        self.position = 0  # of the request, counted from 1
        self.producing: object = None  # the function, or what it returned
        self.file: Path | None = None
        self.line = 0
        self.cut = False  # the line was too long, and only its beginning was read

    def __str__(self) -> str:
        if self.file is not None:
            return f"{'stdin' if self.file == Path('-') else shown(str(self.file))}:{self.line}"
        return place_of_code(self.producing) or f"start request {self.position}"

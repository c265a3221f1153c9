"""How a spider logs in: `@spider.login`, and the session that the function gets.

    @spider.login(logged_out="form#login", accounts=[{"name": "anna", "password": os.environ["ANNA"]}])
    async def login(session):
        page = await session.fetch("https://shop.example/login")
        await session.submit_form(page, "form#login", {"user": "anna", "password": session.account["password"]})

What an account holds stays in the memory of the process: it is never stored, logged or shown.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from shoal.errors import SpiderError
from shoal.model import Response, Task
from shoal.model.request import Request
from shoal.text import MASK

if TYPE_CHECKING:
    from shoal.spider.page import Page

Account: TypeAlias = Mapping[str, Any]
Accounts: TypeAlias = Sequence[Account | str] | Callable[[], Sequence[Account | str]]

MAIN = "main"  # the session of requests that name none, if there are no accounts
_UNAUTHORIZED = 401
_SHORT = 3  # shorter values of an account are no secrets, and would blot out half of a message
_NAME = 100  # characters of an account's name
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class LoginFailed(Exception):
    """Raise it in a login function, with the reason: the login did not work."""


class Login(Struct, frozen=True):
    """What `@spider.login` was given."""

    function: Callable[[LoginSession], Awaitable[object]]
    logged_out: str | Callable[[Page], object] | None = None  # a CSS selector, or a function of the page
    statuses: frozenset[int] = frozenset({_UNAUTHORIZED})
    urls: re.Pattern[str] | None = None  # searched in the target of a redirect, and in the URL that it led to
    accounts: Accounts = ()

    def find_accounts(self) -> dict[str, Account]:
        """The accounts by their names; none: every session logs in the same way."""
        given = self.accounts() if callable(self.accounts) else self.accounts
        accounts: dict[str, Account] = {}
        for one in given:
            account = {"name": one} if isinstance(one, str) else one
            name = account.get("name") if isinstance(account, Mapping) else None
            if not isinstance(name, str) or not 0 < len(name) <= _NAME:
                raise SpiderError(
                    "@spider.login: an account is a dict with a name, as in "
                    '{"name": "anna", "password": …}, or a text'
                )
            if name in accounts:
                raise SpiderError(f"@spider.login: there are two accounts named {name!r}")
            accounts[name] = account
        if callable(self.accounts) and not accounts:
            raise SpiderError("@spider.login: the function for accounts gave none")
        return accounts


def make_login(
    function: Callable[[LoginSession], Awaitable[object]],
    logged_out: str | Callable[[Page], object] | None = None,
    *,
    logged_out_status: int | Sequence[int] = _UNAUTHORIZED,
    logged_out_url: str | None = None,
    accounts: Accounts = (),
) -> Login:
    """Checks what `@spider.login` was given."""
    if not iscoroutinefunction(function):
        raise SpiderError(
            "@spider.login: write the function with async def, without yield, and with one parameter: session"
        )
    if logged_out is not None and not isinstance(logged_out, str) and not callable(logged_out):
        raise SpiderError("@spider.login: logged_out is a CSS selector or a function of the page")
    if isinstance(logged_out, str):
        _check_selector(logged_out)
    if not callable(accounts) and (isinstance(accounts, str) or not isinstance(accounts, Sequence)):
        raise SpiderError("@spider.login: accounts is a list of accounts, or a function that returns one")
    statuses = [logged_out_status] if isinstance(logged_out_status, int) else logged_out_status
    try:
        urls = re.compile(logged_out_url) if logged_out_url is not None else None
    except re.error as error:
        raise SpiderError(f"@spider.login: logged_out_url is no regular expression: {error}") from None
    return Login(function, logged_out, frozenset(statuses), urls, accounts)


def _check_selector(selector: str) -> None:
    from shoal.spider.page import Page

    empty = Page(Task(""), Response("", 200, {"Content-Type": "text/html"}, b"<p>"), "")
    try:
        empty.first(selector)
    except ValueError as error:
        raise SpiderError(f"@spider.login: logged_out: {error}") from None


class LoginSession:
    """What a login function is given: a session without cookies, which sends its requests one after another."""

    def __init__(
        self,
        name: str,
        account: Account | None,
        send: Callable[[Request], Awaitable[Page]],
        cookies: Callable[[], dict[str, str]],
    ) -> None:
        self.name = name
        self.account: Account = account if account is not None else {}
        self.headers: dict[
            str, str
        ] = {}  # sent with every request of the session from now on, such as a token
        self.last: Page | None = None  # the last answer
        self.pages: list[
            str
        ] = []  # where forms were submitted: a site sends those there who are not logged in
        self._send = send
        self._cookies = cookies

    def __repr__(self) -> str:
        return f"<LoginSession {self.name!r}>"

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that the session has now, by name."""
        return self._cookies()

    def check_headers(self) -> None:
        """Raises LoginFailed if the headers cannot be sent: otherwise every page would fail by them."""
        for name, value in self.headers.items():
            if not isinstance(name, str) or not isinstance(value, str) or not _HEADER.fullmatch(name):
                raise LoginFailed(
                    f"session.headers has {name!r}, which is no header with a text as its value"
                )
            if _CONTROL.search(value):
                raise LoginFailed(f"session.headers: the value of {name!r} has a line break or the like")

    async def fetch(self, request: str | Request, **fields: Any) -> Page:
        """Fetches a page in this session. It keeps to the host's limit and robots.txt, follows redirects, and raises
        `FetchFailed` if there is no page."""
        if isinstance(request, str):
            request = Request(request, **fields)
        elif fields:
            request = replace(request, **fields)
        return await self._sent(request)

    async def submit_form(
        self, page: Page, selector: str = "form", fields: Mapping[str, Any] | None = None, **options: Any
    ) -> Page:
        """Submits a form of a page, as `page.submit_form` does, and answers with the page that follows."""
        self.pages += [page.task.origin, page.url]
        return await self._sent(page.submit_form(selector, fields, **options))

    async def _sent(self, request: Request) -> Page:
        own = {**self.headers, **(request.headers or {})} or None
        self.last = await self._send(replace(request, session=self.name, headers=own))
        return self.last

    def without_secrets(self, text: str) -> str:
        """The text without what the account holds, besides its name."""
        for secret in _secrets({key: value for key, value in self.account.items() if key != "name"}):
            text = text.replace(secret, MASK)
        return text


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= _SHORT:
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _secrets(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _secrets(one)

"""How an answer tells that its session is not logged in.

by its status        401, or what `logged_out_status` says
by a redirect        to a page of the login, or to a URL that `logged_out_url` finds
by the page          what `logged_out` finds, or a login form that the engine knows (`login_wall`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.admit.sending import redirect_url, without_route
from shoal.engine.judging import Judgement
from shoal.hosts.session_notes import LoginState
from shoal.model import Response, Task
from shoal.spider.hook_calls import looks_logged_out
from shoal.spider.login import Login
from shoal.spider.page import Page

_PAGES = 5  # of a login that are remembered


class LogoutSigns:
    def __init__(self, login: Login, now: Callable[[], float]) -> None:
        self._login = login
        self._now = now

    async def in_answer(
        self, task: Task, response: Response, judgement: Judgement, login: LoginState
    ) -> bool:
        if _plain(task.origin) in login.urls:
            return False  # the login page itself was asked for
        if response.status in self._login.statuses or judgement.kind == "login_wall":
            return True
        if judgement.kind == "redirect":
            to = redirect_url(response.headers["Location"], task.url)
            return to is not None and self._is_login_url(to, login)
        if task.hops and self._is_login_url(task.url, login):
            return True
        if self._login.logged_out is None:
            return False
        return await self.on_page(Page(task, response, task.handler, self._now()))

    async def on_page(self, page: Page) -> bool:
        sign = self._login.logged_out
        if sign is None:
            return False
        if isinstance(sign, str):
            return page.is_html and page.first(sign) is not None
        return await looks_logged_out(sign, page)

    def _is_login_url(self, url: str, login: LoginState) -> bool:
        pattern = self._login.urls
        return _plain(url) in login.urls or (pattern is not None and pattern.search(url) is not None)


def login_pages(urls: Sequence[str]) -> tuple[str, ...]:
    """What is remembered of the pages with the forms of a login."""
    return tuple(dict.fromkeys(map(_plain, urls)))[:_PAGES]


def _plain(url: str) -> str:
    return without_route(url).partition("?")[0]

"""What a page asks of robots, and what the settings make of it."""

from __future__ import annotations

from shoal.engine.tally import Tally
from shoal.fetch.robots_fetch import agent_of
from shoal.html.page_links import join
from shoal.html.robots_meta import NOFOLLOW, NOINDEX, header_asks, markup_asks, unendorsed
from shoal.model import Request
from shoal.settings import Settings
from shoal.spider.handlers import Yielded
from shoal.spider.page import Page


class RobotsDirectives:
    """Leaves out what a page asks robots not to take, if the settings say so.

    noindex    the page's items are not written
    nofollow   the page's links are not followed
    rel        links with rel="nofollow" are not followed
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agent = agent_of(settings.user_agent)

    def asked(self, page: Page) -> set[str]:
        """Which of "noindex" and "nofollow" the page asks for."""
        getall = getattr(page.headers, "getall", None)
        values = getall("X-Robots-Tag", ()) if getall else [page.headers.get("X-Robots-Tag", "")]
        asked = header_asks(values, self._agent)
        return asked | markup_asks(page.tree, self._agent) if page.is_html else asked

    def followed(self, page: Page, requests: list[Request]) -> list[Request]:
        """The requests without those that the page asks robots not to follow."""
        if self._settings.robots_meta and NOFOLLOW in self.asked(page):
            return []
        if not (self._settings.rel_nofollow and requests and page.is_html):
            return requests
        skipped = unendorsed(page.tree, page.base)
        return [request for request in requests if join(request.base or page.url, request.url) not in skipped]

    def apply(self, page: Page, yielded: Yielded, tally: Tally) -> Yielded:
        """What may be taken of what a handler yielded. The rest is counted."""
        if not (self._settings.robots_meta or self._settings.rel_nofollow):
            return yielded
        items, requests = yielded.items, self.followed(page, yielded.requests)
        if self._settings.robots_meta and items and NOINDEX in self.asked(page):
            tally.cut("noindex items", len(items))
            items = []
        if len(requests) < len(yielded.requests):
            tally.refused(NOFOLLOW, len(yielded.requests) - len(requests))
        return Yielded(items, requests)

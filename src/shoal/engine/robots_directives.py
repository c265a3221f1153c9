"""What a page asks robots not to take is left out of what its handler gave, if the settings say so.

noindex    its items are not written
nofollow   none of its links is followed
rel        links with rel="nofollow" are not
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.fetch.robots_fetch import agent_of
from shoal.html.page_links import join
from shoal.html.robots_meta import NOFOLLOW, NOINDEX, header_asks, markup_asks, unendorsed
from shoal.model import Request
from shoal.spider.handlers import Yielded

if TYPE_CHECKING:
    from shoal.engine.tally import Tally
    from shoal.settings import Settings
    from shoal.spider.page import Page


class Manners:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agent = agent_of(settings.user_agent)

    def asked(self, page: Page) -> set[str]:
        """ "noindex" and "nofollow", as far as the page asks for them."""
        getall = getattr(page.headers, "getall", None)
        values = getall("X-Robots-Tag", ()) if getall else [page.headers.get("X-Robots-Tag", "")]
        asked = header_asks(values, self._agent)
        return asked | markup_asks(page.tree, self._agent) if page.is_html else asked

    def followed(self, page: Page, requests: list[Request]) -> list[Request]:
        """Those that the page does not mind."""
        if self._settings.robots_meta and NOFOLLOW in self.asked(page):
            return []
        if not (self._settings.rel_nofollow and requests and page.is_html):
            return requests
        skipped = unendorsed(page.tree, page.base)
        return [request for request in requests if join(request.base or page.url, request.url) not in skipped]

    def apply(self, page: Page, yielded: Yielded, tally: Tally) -> Yielded:
        """What may be taken of what a handler gave; the rest is counted."""
        if not (self._settings.robots_meta or self._settings.rel_nofollow):
            return yielded
        items, requests = yielded.items, self.followed(page, yielded.requests)
        if self._settings.robots_meta and items and NOINDEX in self.asked(page):
            tally.cut("noindex items", len(items))
            items = []
        if len(requests) < len(yielded.requests):
            tally.refused(NOFOLLOW, len(yielded.requests) - len(requests))
        return Yielded(items, requests)

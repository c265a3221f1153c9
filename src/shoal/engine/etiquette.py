"""What a page asks of robots, and what the settings make of it."""

from __future__ import annotations

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import host_key, site
from shoal.admit.sending import sent_url
from shoal.engine.tally import Tally
from shoal.fetch.robots_fetch import agent_of
from shoal.html.page_facts import alternates, declared_canonical, header_canonical
from shoal.html.page_links import join
from shoal.html.robots_meta import NOARCHIVE, NOFOLLOW, NOINDEX, header_asks, markup_asks, unendorsed
from shoal.limits import ALTERNATES
from shoal.model import Response, Task
from shoal.model.request import PageLinks, Request
from shoal.settings import Settings
from shoal.spider.handlers import Yielded
from shoal.spider.page import Page
from shoal.spider.row_fields import header_values


class RobotsDirectives:
    """Leaves out what a page asks robots not to take, and follows what it names besides, if the settings say so.

    noindex     the page's items are not written                       robots_meta
    nofollow    the page's links are not followed                      robots_meta
    rel         links with rel="nofollow" are not followed             rel_nofollow
    noarchive   the page is not archived                               robots_noarchive
    canonical   the URL that a page calls its own is followed; or its items are left to that page    canonical
    hreflang    the page in other languages is followed                hreflang
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agent = agent_of(settings.user_agent)
        self._canonical = Canonicaliser(settings.tracking_params)
        self._leads_on = settings.canonical != "ignore" or settings.hreflang
        self._acts = settings.robots_meta or settings.rel_nofollow or self._leads_on

    def asked(self, page: Page) -> set[str]:
        """Which of "noindex", "nofollow" and "noarchive" the page asks for."""
        asked = header_asks(header_values(page.headers, "X-Robots-Tag"), self._agent)
        return asked | markup_asks(page.tree, self._agent) if page.is_html else asked

    def refuses_archive(self, task: Task, response: Response) -> bool:
        """Whether the page is not to be archived."""
        if not self._settings.robots_noarchive:
            return False
        return NOARCHIVE in self.asked(Page(task, response, handler=""))

    def followed(self, page: Page, requests: list[Request] | PageLinks) -> list[Request] | PageLinks:
        """The requests without those that the page asks robots not to follow."""
        if self._nothing_is_followed(page):
            return []
        if not (self._settings.rel_nofollow and requests and page.is_html):
            return requests
        skipped = unendorsed(page.tree, page.base)
        return [request for request in requests if join(request.base or page.url, request.url) not in skipped]

    def _nothing_is_followed(self, page: Page) -> bool:
        return self._settings.robots_meta and NOFOLLOW in self.asked(page)

    def apply(self, page: Page, yielded: Yielded, tally: Tally) -> Yielded:
        """What may be taken of what a handler yielded, and what follows besides. The rest is counted."""
        if not self._acts:
            return yielded
        items, requests = yielded.items, self.followed(page, yielded.requests)
        if self._settings.robots_meta and items and NOINDEX in self.asked(page):
            tally.cut("noindex items", len(items))
            items = []
        if len(requests) < len(yielded.requests):
            tally.refused(NOFOLLOW, len(yielded.requests) - len(requests))
        if self._leads_on and not self._nothing_is_followed(page):
            canonical = self._other_canonical(page)
            if canonical is not None and self._settings.canonical == "merge" and items:
                tally.cut("items of pages with another canonical URL", len(items))
                items = []
            requests = [*requests, *self._related(page, canonical)]
        return Yielded(items, requests)

    def _other_canonical(self, page: Page) -> str | None:
        """The URL that the page calls its own, if that is another page of the same site."""
        if self._settings.canonical == "ignore":
            return None
        headers = header_values(page.headers, "Link")
        said = (
            declared_canonical(page.tree, page.base, headers)
            if page.is_html
            else header_canonical(headers, page.url)
        )
        url = sent_url(said) if said else None
        if url is None or site(host_key(url)) != site(host_key(page.url)):
            return None
        return None if self._canonical(url) == self._canonical(page.task.url) else url

    def _related(self, page: Page, canonical: str | None) -> list[Request]:
        """They are the same page, so they are as far from the start."""
        urls = [] if canonical is None else [canonical]
        if self._settings.hreflang and page.is_html:
            found = alternates(page.tree, page.base, header_values(page.headers, "Link"))
            urls += [url for _, url in found[:ALTERNATES]]
        return [Request(url, page.handler, depth=page.depth) for url in dict.fromkeys(urls)]

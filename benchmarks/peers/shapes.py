"""What is crawled: five shapes of work, and the site of one page that shows what starting costs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from shoal.testing import Site


class Shape(Struct, frozen=True):
    """`pages` of each shape are spread over its hosts. What they say follows from these numbers alone."""

    name: str
    title: str
    pages: int
    hosts: int = 1
    links: int = 33  # on each page
    body_bytes: int = 15_000  # of each page
    tls: bool = False
    follow: bool = True  # else the URLs of all pages are given, and links are left alone

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    def site(self, host: int) -> Site:
        pages = self.pages // self.hosts + (host < self.pages % self.hosts)
        return Site(pages, self.links, self.body_bytes, seed=host)

    def sites(self) -> Iterator[Site]:
        return map(self.site, range(self.hosts))


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("links", "15 KB, 33 links a page, one host", pages=3_000),
        Shape("hosts", "15 KB, 33 links a page, 100 hosts", pages=2_000, hosts=100),
        Shape("large", "100 KB, 33 links a page, one host", pages=1_000, body_bytes=100_000),
        Shape("list", "a list of URLs, 15 KB each, no links followed", pages=3_000, follow=False),
        Shape("tls", "15 KB, 33 links a page, one host, over TLS", pages=2_000, tls=True),
    )
}
START = Shape("start", "a site of one page", pages=1)

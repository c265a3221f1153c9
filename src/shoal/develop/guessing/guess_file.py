"""A guess as a TOML file, with remarks for whoever edits it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from shoal.develop.guessing.cards import Cards
from shoal.develop.guessing.found_fields import FoundField
from shoal.develop.guessing.paging import NextPage
from shoal.develop.guessing.toml_text import quoted, remark_text


class SitemapFound(Struct, frozen=True):
    url: str
    urls: int  # that were read of it
    products: int  # of them


class Guess(Struct, frozen=True, kw_only=True):
    """What was found out about a site."""

    name: str
    start: tuple[str, ...]
    listing: Cards | None  # links to products
    listing_url: str
    menu: tuple[str, int] | None  # a selector for links to listings, and how many there are
    following: NextPage | None
    sitemap: SitemapFound | None
    match: str | None
    fields: tuple[FoundField, ...]
    samples: tuple[str, ...]  # pages of products that were looked at
    remarks: tuple[str, ...] = ()
    handler: str = "product"  # or "page", of sites without products


def written(guess: Guess) -> str:
    return "\n".join(_lines(guess)) + "\n"


def _lines(guess: Guess) -> Iterator[str]:
    yield f"# A guess, from {len(guess.samples)} {guess.handler} pages. Read it, change it, and try it:"
    yield "#   shoal check FILE.toml --page URL     whether it is in order, and what it makes of a page"
    yield "#   shoal crawl FILE.toml -o rows.jsonl"
    yield from (f"# {remark_text(remark)}" for remark in guess.remarks)
    yield ""
    yield f"name = {quoted(guess.name)}"
    yield from _start(guess)
    yield from _listing(guess)
    yield ""
    yield f"[handler.{guess.handler}]"
    if guess.match is not None:
        yield f"match = {quoted(guess.match)}"
    yield 'key = "url"'
    yield ""
    yield f"[handler.{guess.handler}.fields]"
    yield 'url = { page = "url" }'
    for field in guess.fields:
        yield f"{field.name} = {_value(field)}{_remark(field)}"


def _start(guess: Guess) -> Iterator[str]:
    """The sitemap, if it has the products: nothing else needs to be fetched then."""
    sitemap = guess.sitemap
    if sitemap is not None and sitemap.products and guess.match is not None:
        share = f"{sitemap.products:,} of {sitemap.urls:,} URLs"
        yield f"sitemap = {quoted(sitemap.url)}  # {share} look like a {guess.handler}"
        yield f"include = {quoted(guess.match)}"
        if guess.listing is not None:
            yield f"# start = {_list(guess.start)}  # the listings, if the sitemap should not be complete"
        return
    yield f"start = {_list(guess.start)}"
    if sitemap is not None:
        yield f"# sitemap = {quoted(sitemap.url)}  # {sitemap.urls:,} URLs, none of which looks like a {guess.handler}"


def _listing(guess: Guess) -> Iterator[str]:
    if guess.listing is None:
        return
    yield ""
    yield "[handler.listing]"
    follow = []
    if guess.menu is not None:
        follow.append((f"listing = {quoted(guess.menu[0])}", f"{guess.menu[1]} links to listings"))
    about = f"{len(guess.listing.urls)} links on {remark_text(guess.listing_url)}"
    block = f", in {guess.listing.block}" if guess.listing.block else ""
    follow.append((f"{guess.handler} = {quoted(guess.listing.css)}", about + block))
    for line, remark in follow:
        yield f"follow.{line}  # {remark}"
    if guess.following is not None:
        manner = {"next": "the next page", "numbers": "all numbered pages", "more": "a link that loads more"}
        yield f"next = {quoted(guess.following.css)}  # {manner[guess.following.manner]}"


def _list(urls: tuple[str, ...]) -> str:
    return quoted(urls[0]) if len(urls) == 1 else "[" + ", ".join(map(quoted, urls)) + "]"


def _value(field: FoundField) -> str:
    kind = f', type = "{field.type}"' if field.type else ""
    if len(field.where) == 1:
        return f"{{ {field.where[0]}{kind} }}"
    places = ", ".join(f"{{ {one} }}" for one in field.where)
    return f"{{ any = [{places}]{kind} }}"


def _remark(field: FoundField) -> str:
    example = f': "{remark_text(field.samples[0])}"' if field.samples else ""
    return f"  # {field.sure}{example}" + (f"; {remark_text(field.remark)}" if field.remark else "")

"""The fields of a product page, from several samples of it: structured data where there is some, else selectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from shoal.develop.guessing.detail_fields import (
    Pick,
    best_availability,
    best_price,
    best_sku,
    heading_pick,
    old_prices,
    price_in,
)
from shoal.develop.guessing.outline import Outline
from shoal.develop.guessing.short_selectors import selectors_for
from shoal.develop.guessing.toml_text import quoted
from shoal.html.records.availability import availability_of
from shoal.html.records.currencies import local_currency
from shoal.spider.page import Page

Sureness: TypeAlias = Literal["sure", "likely", "perhaps"]
FROM_DATA = (
    "name",
    "price",
    "currency",
    "availability",
    "sku",
    "gtin",
    "brand",
    "image",
    "description",
    "rating",
)
FROM_ARTICLES = ("headline", "author", "published", "modified", "section", "description", "image")
_CURRENCY_ATTRIBUTES = ("data-currency", "data-price-currency", "data-currency-code")
MOST_SELECTORS = 3  # for a field


class Sample(Struct):
    """A page of a product."""

    page: Page
    outline: Outline
    data: dict[str, Any]  # what the page says of its product; {} if nothing

    @classmethod
    def of(cls, page: Page) -> Sample:
        return cls(page, Outline(page), main_product(page))


class FoundField(Struct, frozen=True):
    """One line of the file."""

    name: str
    where: tuple[str, ...]  # each a table of TOML, such as `data = "product.price"`
    type: str = ""
    samples: tuple[str, ...] = ()
    sure: Sureness = "likely"
    remark: str = ""
    selectors: tuple[tuple[str, str], ...] = ()  # and attributes, if it is found by them


def main_product(page: Page) -> dict[str, Any]:
    """What the page says of the product that it is about; {} if it says nothing."""
    found = page.data("product") if page.is_html else []
    return found[0] if found else {}


def find_fields(samples: Sequence[Sample]) -> list[FoundField]:
    """In the order in which they stand in the file."""
    home = home_currency(samples[0].page)
    found = {field.name: field for field in _from_data(samples)}
    prices = [best_price(sample.outline, home) for sample in samples]
    _check_prices(found, samples, prices)
    if found.get("price") and _takes_old_prices(samples, prices):
        del found["price"]
    if "price" not in found and (price := _by_selectors("price", samples, prices, _amount(home))) is not None:
        found["price"] = price
        found["currency"] = _currency(price, samples, home)
    if "availability" not in found:
        states = [best_availability(sample.outline) for sample in samples]
        if (state := _by_selectors("availability", samples, states, availability_of)) is not None:
            found["availability"] = state
    if "name" not in found and (name := _name(samples)) is not None:
        found["name"] = name
    if "sku" not in found:
        codes = [best_sku(sample.outline) for sample in samples]
        if (code := _by_selectors("sku", samples, codes, lambda text: text)) is not None:
            found["sku"] = code
    if "image" not in found and all(
        sample.page.attr('meta[property="og:image"]', "content") for sample in samples
    ):
        found["image"] = FoundField("image", ('meta = "og:image"',), "url", sure="likely")
    return [found[name] for name in FROM_DATA if name in found]


def find_page_fields(samples: Sequence[Sample]) -> list[FoundField]:
    """Of pages without a product: what they say of themselves as articles, else the heading and what is in `meta`."""
    articles = [(sample.page.data("article") or [{}])[0] for sample in samples]
    found = []
    for name in FROM_ARTICLES:
        values = [article.get(name) for article in articles]
        if all(values):
            shown = tuple(_shown(value) for value in values[:3])
            found.append(FoundField(name, (f'data = "article.{name}"',), "", shown, "sure"))
    known = {field.name for field in found}
    if "headline" not in known and (heading := _name(samples)) is not None:
        found.insert(0, heading)
    for name, meta in (("description", "description"), ("image", "og:image")):
        values = [
            sample.page.attr(f'meta[name="{meta}"], meta[property="{meta}"]', "content") for sample in samples
        ]
        if name not in known and all(values):
            found.append(FoundField(name, (f'meta = "{meta}"',), "", tuple(map(str, values[:3])), "likely"))
    return found


def home_currency(page: Page) -> str | None:
    return local_currency(page.attr("html", "lang") or "", page.task.host)


# -- structured data


def _from_data(samples: Sequence[Sample]) -> list[FoundField]:
    """Fields that all samples have in their data; price and availability also if most have."""
    fields = []
    for name in FROM_DATA:
        values = [sample.data.get(name) for sample in samples]
        there = [value for value in values if value not in (None, "", [], {})]
        if len(there) == len(values) or (len(there) * 3 >= len(values) * 2 and len(values) > 2):
            sure: Sureness = "sure" if len(there) == len(values) else "likely"
            shown = tuple(_shown(value) for value in there[:3])
            fields.append(FoundField(name, (f'data = "product.{name}"',), "", shown, sure))
    return fields


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("name") or value.get("value") or value
    return " ".join(str(value).split())[:60]


def _check_prices(
    found: dict[str, FoundField], samples: Sequence[Sample], picks: Sequence[Pick | None]
) -> None:
    """Compares the data with what a reader sees. Where pages say "from", the lowest price is the one that they show."""
    if "price" not in found:
        return
    pairs = [
        (sample.data, pick.value) for sample, pick in zip(samples, picks, strict=True) if pick is not None
    ]
    if not pairs:
        return
    lowest = sum(_same(data.get("low_price"), seen) for data, seen in pairs)
    same = sum(_same(data.get("price"), seen) for data, seen in pairs)
    field = found["price"]
    if lowest > same:
        shown = tuple(str(data.get("low_price")) for data, _ in pairs[:3])
        found["price"] = FoundField(
            "price",
            ('data = "product.low_price"', *field.where),
            "",
            shown,
            "likely",
            "the lowest, as the page shows it",
        )
    elif same < len(pairs):
        remark = f"the page shows {pairs[0][1]}" if not _same(pairs[0][0].get("price"), pairs[0][1]) else ""
        found["price"] = FoundField("price", field.where, "", field.samples, "likely", remark)


def _same(value: Any, seen: str) -> bool:
    try:
        return value is not None and float(value) == float(seen)
    except ValueError:
        return False


# -- selectors


def _by_selectors(
    name: str, samples: Sequence[Sample], picks: Sequence[Pick | None], read: Callable[[str], str | None]
) -> FoundField | None:
    """The fewest selectors that give on every sample what was picked there."""
    wanted = {number: pick for number, pick in enumerate(picks) if pick is not None}
    if len(wanted) * 2 < len(picks) or not wanted:
        return None
    tried = _tried(samples, wanted, read)
    chosen: list[tuple[str, str, int]] = []  # selector, attribute, samples that it finds anything on
    left = set(wanted)
    while left and len(chosen) < MOST_SELECTORS and tried:
        best = max(tried, key=lambda one: (len(one.right & left) - 2 * len(one.wrong & left), -one.rank))
        if not best.right & left:
            break
        chosen.append((best.css, best.attribute, len(best.right | best.wrong)))
        left -= best.right
    if not chosen:
        return None
    # One that finds something on few pages, such as a sale price, is asked before one that finds it on all.
    chosen.sort(key=lambda one: one[2])
    where = tuple(_written(css, attribute) for css, attribute, _ in chosen)
    values = tuple(pick.text for pick in list(wanted.values())[:3])
    differ = len({pick.value for pick in wanted.values()}) > 1
    sure: Sureness = (
        "likely"
        if not left and len(wanted) == len(picks) and (differ or name == "availability")
        else "perhaps"
    )
    kind = "" if name in ("sku", "name") else name
    return FoundField(name, where, kind, values, sure, selectors=tuple(one[:2] for one in chosen))


class _Tried(Struct):
    css: str
    attribute: str
    rank: int  # the lower, the plainer
    right: set[int]
    wrong: set[int]


def _tried(
    samples: Sequence[Sample], wanted: dict[int, Pick], read: Callable[[str], str | None]
) -> list[_Tried]:
    """Every selector for a picked element, and on which samples it gives what was picked there."""
    candidates: dict[tuple[str, str], int] = {}
    for number, pick in wanted.items():
        for rank, css in enumerate(selectors_for(samples[number].outline, pick.spot)):
            candidates.setdefault((css, pick.attribute), rank)
    tried = []
    for (css, attribute), rank in candidates.items():
        one = _Tried(css, attribute, rank, set(), set())
        for number, sample in enumerate(samples):
            value = _read(sample, css, attribute, read)
            if value is None:
                continue
            known = wanted.get(number)
            (one.right if known is not None and value == known.value else one.wrong).add(number)
        if one.right:
            tried.append(one)
    return tried


def _read(sample: Sample, css: str, attribute: str, read: Callable[[str], str | None]) -> str | None:
    """As a crawl will: the first element that can be read."""
    node = sample.page.first(css)
    if node is None:
        return None
    text = (node.attributes.get(attribute) or "") if attribute else (node.text() or "")
    text = " ".join(text.split())
    return read(text) if text else None


def _amount(home: str | None) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        price = price_in(text[:200], home)
        return None if price is None else str(price.amount)

    return read


def _written(css: str, attribute: str) -> str:
    return f"css = {quoted(css)}" + (f", attr = {quoted(attribute)}" if attribute else "")


def _currency(price: FoundField, samples: Sequence[Sample], home: str | None) -> FoundField:
    """From beside the amount, or from its text; if that says none, from the language of the page."""
    css, attribute = price.selectors[0]
    for name in _CURRENCY_ATTRIBUTES if attribute else ():
        codes = [sample.page.attr(css, name) for sample in samples]
        if all(codes):
            return FoundField(
                "currency", (_written(css, name),), "currency", tuple(map(str, codes[:3])), "likely"
            )
    said = {_said_currency(price, sample, home) for sample in samples}
    code = next(iter(said)) if len(said) == 1 else None
    if code and not attribute:
        return FoundField("currency", price.where, "currency", (code,), "likely")
    if code or home:
        remark = "" if code else "by the language of the page"
        return FoundField("currency", (f"const = {quoted(code or home or '')}",), "", (), "perhaps", remark)
    return FoundField("currency", ('const = "XXX"',), "", (), "perhaps", "no page says which: write its code")


def _said_currency(price: FoundField, sample: Sample, home: str | None) -> str | None:
    """As the type `currency` will read it: without a guess from the language."""
    for css, attribute in price.selectors:
        node = sample.page.first(css)
        if node is not None and not attribute:
            found = price_in(" ".join((node.text() or "").split())[:200])
            return None if found is None else found.currency
    return None


def _takes_old_prices(samples: Sequence[Sample], picks: Sequence[Pick | None]) -> bool:
    """Whether the data has prices that the page shows as crossed out."""
    wrong = [
        (sample, pick)
        for sample, pick in zip(samples, picks, strict=True)
        if pick is not None
        and not any(_same(sample.data.get(name), pick.value) for name in ("price", "low_price"))
    ]
    return bool(wrong) and all(_is_old_price(sample) for sample, _ in wrong)


def _is_old_price(sample: Sample) -> bool:
    price = sample.data.get("price")
    return any(_same(price, amount) for amount in old_prices(sample.outline))


def _name(samples: Sequence[Sample]) -> FoundField | None:
    picks = [heading_pick(sample.outline) for sample in samples]
    found = _by_selectors("name", samples, picks, lambda text: text)
    if found is None:
        titles = tuple(sample.page.text("title") for sample in samples[:3])
        return FoundField("name", ('css = "title"',), "", titles, "perhaps")
    return structs.replace(
        found, sure="sure" if found.sure == "likely" and found.where == ('css = "h1"',) else found.sure
    )

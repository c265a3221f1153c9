"""The fifty shops: pages that a person can read, and that lead to every product."""

from __future__ import annotations

import gzip
import re
from html import unescape
from urllib.parse import urljoin

import pytest

from shoal.html.records.availability import availability_of
from shoal.testing.shops import PLANS, Plan, ShopsSpec, Storefront
from shoal.testing.shops.languages import WORDS
from shoal.testing.shops.money import MONEY

BASE = "http://127.0.1.1:8000"


def shop(plan: Plan, count: int = 30) -> Storefront:
    return Storefront(plan, BASE, count)


def text_at(front: Storefront, path: str) -> str:
    answer = front.answer(path)
    assert answer.status == 200, path
    body = gzip.decompress(answer.body) if path.endswith(".gz") else answer.body
    codec = front.plan.encoding if answer.content_type.startswith("text/html") else "utf-8"
    return body.decode(codec)


def reachable(front: Storefront) -> set[str]:
    """What links and sitemaps lead to; robots.txt and /sitemap.xml are looked at, as visitors do."""
    found, waiting = {"/"}, ["/", "/robots.txt", "/sitemap.xml"]
    while waiting:
        path = waiting.pop()
        if front.answer(path).status != 200:
            continue
        text = text_at(front, path)
        links = re.findall(
            r'<a [^>]*href="([^"]+)"|<loc>([^<]+)|^(?:Sitemap: )?(http\S+)', text, re.MULTILINE
        )
        for link in (unescape("".join(groups)) for groups in links):
            target = urljoin(BASE + path, link)
            if target.startswith(BASE) and (path := target.removeprefix(BASE)) not in found:
                found.add(path)
                waiting.append(path)
    return found


def test_there_are_fifty_and_no_two_are_built_alike() -> None:
    assert len(PLANS) == 50
    assert len({plan.name for plan in PLANS}) == 50
    built = {
        (plan.layout, plan.head, plan.offers, plan.money, plan.card, plan.paging, plan.paths)
        for plan in PLANS
    }
    assert len(built) == 50


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_product_is_found_and_its_page_says_what_it_costs(plan: Plan) -> None:
    front = shop(plan)
    paths = reachable(front)
    assert {one.availability for one in front.truth()} == set(plan.states)
    for truth, product in zip(front.truth(), front.products, strict=True):
        path = truth.url.removeprefix(BASE)
        assert path in paths
        page = text_at(front, path)
        visible = re.sub(r"<(script|style).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL)
        money = MONEY[plan.money]
        written = (
            money.plain(truth.price)
            if plan.layout in ("attributes", "rdfa prefix", "microdata types")
            else (money.number(truth.price))
        )
        if plan.layout == "split":  # 12€50
            written = written.partition(money.point)[0]
        assert written in (page if plan.layout == "attributes" else unescape(visible)), path
        assert product.name in unescape(visible)


def test_a_shop_is_the_same_every_time() -> None:
    assert shop(PLANS[3]).answer("/catalogue") == shop(PLANS[3]).answer("/catalogue")
    assert shop(PLANS[3]).truth() == shop(PLANS[3]).truth()


@pytest.mark.parametrize("language", WORDS)
def test_what_shops_say_of_their_stock_is_understood(language: str) -> None:
    words = WORDS[language]
    assert availability_of(words.in_stock) == "in_stock"
    assert availability_of(words.preorder) == "preorder"
    assert {availability_of(said) for said in words.sold_out} == {"out_of_stock"}


def test_fewer_shops_are_of_every_sort() -> None:
    plans = ShopsSpec(shops=10).plans()
    assert len(plans) == 10
    assert any(plan.head for plan in plans)
    assert any(not plan.head for plan in plans)

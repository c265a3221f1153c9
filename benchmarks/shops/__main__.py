"""Fifty differently built shops from one file: price, currency and availability against the truth.

    python -m benchmarks.shops                       all of them, 40 products each
    python -m benchmarks.shops --kill 5              killed with kill -9 and resumed five times: every row once
    python -m benchmarks.shops --shops 10 --products 5
    python -m benchmarks.shops --guess               what `shoal guess` writes for each of them, as it is
    python -m benchmarks.shops --pages               no crawl: what every product page says of itself, by `page.data`

A shop is right if all its products have one row each, with the right price, currency and availability.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.shops.crawling import Crawl
from benchmarks.shops.guessing import by_guess
from benchmarks.shops.judging import Verdict, judge, report
from shoal.testing import page
from shoal.testing.shops import ShopsProcess, ShopsSpec, Storefront
from shoal.testing.shops.storefront import storefronts

SPIDER = Path(__file__).with_name("spider.py")
FILE = Path(__file__).with_name("shops.toml")
FIELDS = ("name", "sku", "price", "currency", "availability")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shops", description=__doc__.splitlines()[0])
    parser.add_argument("--shops", type=int, default=50)
    parser.add_argument("--products", type=int, default=40, help="in each shop")
    parser.add_argument("--kill", type=int, default=0, metavar="N", help="kill -9 and resume so often")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument(
        "--pages", action="store_true", help="without a crawl: page.data on every product page"
    )
    parser.add_argument("--code", action="store_true", help="by spider.py instead of shops.toml")
    parser.add_argument("--guess", action="store_true", help="by what `shoal guess` writes for each of them")
    options = parser.parse_args()
    spec, began = ShopsSpec(options.shops, options.products), time.monotonic()
    if options.guess:
        verdicts = by_guesses(spec)
    elif options.pages:
        verdicts = by_pages(spec)
    else:
        verdicts = by_crawl(spec, options.kill, options.seed, by_code=options.code)
    print(report(verdicts))
    print(f"{time.monotonic() - began:.1f} s, killed {options.kill} times")
    wrong = sum(not one.good for one in verdicts)
    return 0 if wrong * 50 <= len(verdicts) else 1


def by_pages(spec: ShopsSpec) -> list[Verdict]:
    plans = spec.plans()
    fronts = storefronts(plans, [f"http://127.0.1.{n}:8000" for n in range(1, len(plans) + 1)], spec.products)
    return judge(fronts, rows_of_pages(fronts))


def rows_of_pages(fronts: list[Storefront]) -> Iterator[dict[str, Any]]:
    for front in fronts:
        for truth in front.truth():
            answer = front.answer(truth.url.removeprefix(front.base))
            shown = page(answer.body, truth.url, headers={"Content-Type": answer.content_type})
            found = shown.data("product")
            one = next((one for one in found if one.get("url") == truth.url), found[0] if found else {})
            yield {"url": truth.url, **{name: one.get(name) for name in FIELDS}}


def by_crawl(spec: ShopsSpec, kills: int, seed: int, *, by_code: bool) -> list[Verdict]:
    # Below the current directory: /tmp may be memory, where nothing costs a sync.
    with ShopsProcess(spec) as shops, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as made:
        folder = Path(made).resolve()
        environment: dict[str, str] = {}
        target = SPIDER
        if by_code:
            environment["SHOPS_STARTS"] = json.dumps(
                [url for front in shops.fronts for url in starts_of(front)]
            )
        else:
            target = folder / FILE.name
            target.write_text(with_addresses(FILE.read_text("utf-8"), shops.fronts), "utf-8")
        crawl = Crawl(folder, [str(target)], environment, kills, seed)
        code = crawl.run(spec.shops * spec.products)
        if code:
            print(f"the crawl ended with {code}: {crawl.log()}")
        return judge(shops.fronts, crawl.rows())


def by_guesses(spec: ShopsSpec) -> list[Verdict]:
    with ShopsProcess(spec) as shops, tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as made:
        return by_guess(shops.fronts, Path(made).resolve())


def with_addresses(text: str, fronts: Sequence[Storefront]) -> str:
    """The file with the shops that there are, at their addresses."""
    for front in fronts:
        text = text.replace(f"http://{front.plan.name}.test", front.base)
    head, *sites = text.split("\n[site.")
    there = {front.plan.name for front in fronts}
    return head + "".join(f"\n[site.{site}" for site in sites if site.partition("]")[0] in there)


def starts_of(front: Storefront) -> list[str]:
    """The home page, and the sitemap where nothing else leads to the products."""
    named = {"xml": "/sitemap.xml", "robots": "/media/products-map.xml", "text": "/sitemap.txt"}
    sitemap = [] if front.plan.card is not None else [front.base + named[front.plan.sitemap]]
    return [front.base + "/", *sitemap]


if __name__ == "__main__":
    sys.exit(main())

"""A whole shop: a login, a search form, a signed API, rows from several pages, files, pages that are not ready yet.

    python -m shoal.testing.shop --port 8000                     the shop, in another terminal
    shoal crawl examples/shop.py -o shop.jsonl --rate 0

SHOP_URL, SHOP_USER, SHOP_PASSWORD and SHOP_API_KEY name another shop of this kind, and a member of it.
"""

import hashlib
import hmac
import os
import time
from dataclasses import dataclass

from shoal import OutgoingRequest, Page, Request, Retry, Spider

SHOP = os.environ.get("SHOP_URL", "http://127.0.0.1:8000")
USER = os.environ.get("SHOP_USER", "member-1")
PASSWORD = os.environ.get("SHOP_PASSWORD", "tide-and-lantern")
API_KEY = os.environ.get("SHOP_API_KEY", "shop-api-key").encode()

spider = Spider("shop", start=[f"{SHOP}/", Request(f"{SHOP}/api/stock", handler="stock")], max_attempts=6)


@dataclass
class Product:  # what is not of this kind is rejected, and kept with the reason
    sku: str
    name: str
    price: float
    variants: list[dict[str, str]]
    files: list[dict[str, str | int]]
    kind: str = "product"


# Called when a page is not there because nobody is logged in: once, for all processes and machines.
@spider.login(logged_out="form#login")
async def login(session):
    page = await session.fetch(f"{SHOP}/login")
    await session.submit_form(page, "#login", {"user": USER, "password": PASSWORD})


@spider.before_request
def sign(request: OutgoingRequest):
    path, now = request.url.removeprefix(SHOP), str(time.time())
    if path.startswith("/api/"):
        mac = hmac.new(API_KEY, f"{path}\n{now}".encode(), hashlib.sha256)
        request.headers |= {"X-Time": now, "X-Signature": mac.hexdigest()}


@spider.handler
def home(page: Page):
    yield page.follow("/list", listing)
    yield page.submit_form("#search", {"in": "sale"}, listing)


@spider.handler
def listing(page: Page):
    yield from page.follow_all("li.product a", product)
    yield from page.paginate(".next a")


# The URLs in `files` are downloaded. A row is written once, with its variants and files, or not at all.
@spider.handler(item=Product, key="sku", files=["files"], priority=1)
async def product(page: Page):
    if "temporarily sold out" in page.text("main"):
        raise Retry("sold out", after=0.2)
    row = {"sku": page.text(".sku"), "name": page.text("h1"), "price": page.text(".price"), "variants": []}
    for url in page.links(".variants a"):
        table = await page.fetch(url)
        for line in table.css("tr[data-sku]"):
            cells = {name: line.css_first(f".{name}").text() for name in ("colour", "size", "price")}
            row["variants"].append({"sku": line.attributes["data-sku"], **cells})
    page.count("variants", len(row["variants"]))
    yield row | {"files": page.links("li.file a")}


@spider.handler(key="sku")
def stock(page: Page):
    answer = page.json()
    yield from ({"kind": "stock", **entry} for entry in answer["entries"])
    if answer["next"]:
        yield page.follow("/api/stock", params={"cursor": answer["next"]})


@spider.on_item(handler=product)
def clean(item, page: Page):
    for priced in (item, *item["variants"]):
        priced["price"] = priced["price"].strip("€ ")

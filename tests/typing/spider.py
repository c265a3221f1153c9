"""A spider of a user who checks types strictly: `make types` reads this file, and nothing runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shoal import Drop, JobSummary, OutgoingRequest, Page, Request, Retry, Spider

spider = Spider("typed", start="https://shop.example/", rate=1)


@dataclass
class Product:
    sku: str


@spider.handler
def listing(page: Page) -> Iterator[Request]:
    yield from page.follow_all("a.product", product)


@spider.handler(item=Product, key="sku")
async def product(page: Page) -> dict[str, str | None]:
    if (await page.fetch("/stock")).status == 404:
        raise Retry("no stock yet", after=5)
    page.count("products")
    return {"sku": page.text(".sku")}


@spider.before_request
def sign(request: OutgoingRequest) -> None:
    request.headers["X-Signature"] = "…"


@spider.after_response(order=1)
def check(page: Page) -> Page | None:
    return page.replace(body=b"") if page.status == 204 else None


@spider.on_item(handler=product)
def clean(item: dict[str, str], page: Page) -> dict[str, str]:
    if not item["sku"]:
        raise Drop("no SKU")
    return item


@spider.on_job_end
async def report(job: JobSummary) -> None:
    await spider.state.set("rows", job.rows)

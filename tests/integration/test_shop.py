"""The shop of `shoal.testing` is what it says: every part of it asked by another client."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator
from urllib.parse import unquote

import httpx
import msgspec
import pytest

from shoal.testing.shop import (
    ACCOUNTS,
    Catalogue,
    Login,
    Shop,
    ShopLog,
    ShopProcess,
    ShopSpec,
    Visit,
    signature,
)

USER, PASSWORD = next(iter(ACCOUNTS.items()))


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with Shop(ShopSpec(products=60, session_pages=5)) as shop:
        yield shop


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=shop.url, follow_redirects=True) as client:
        yield client


def links(html: str, pattern: str) -> list[str]:
    return re.findall(rf'href="({pattern})"', html)


async def log_in(client: httpx.AsyncClient, password: str = PASSWORD) -> httpx.Response:
    form = (await client.get("/login")).text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    return await client.post("/login", data={**hidden, "user": USER, "password": password})


async def test_listing_and_search_lead_to_every_product(shop: Shop, client: httpx.AsyncClient) -> None:
    found, following = list[str](), ["/list?page=1"]
    while following:
        html = (await client.get(following[0])).text
        found += links(html, r"/product/\d+")
        following = links(html, r"/list\?page=\d+")
    home = (await client.get("/")).text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', home))
    assert (await client.post("/search", data={"q": "", "in": "sale"})).status_code == 400
    html = (await client.post("/search", data={**hidden, "in": "sale", "go": "1"})).text
    found += links(html, r"/product/\d+")
    assert sorted(found) == sorted(f"/product/{n}" for n in range(60))


async def test_prices_are_for_members_until_their_session_ends(shop: Shop, client: httpx.AsyncClient) -> None:
    for number in (2, 3):  # one shows the login in its place, the other leads there
        answer = await client.get(f"/product/{number}")
        assert answer.status_code == 200
        assert "Sign in" in answer.text
        assert "€" not in answer.text
    await log_in(client)
    product = shop.catalogue.product(2)
    for _ in range(5):
        assert f"€ {product.price}" in (await client.get("/product/2")).text
    assert "Sign in" in (await client.get("/product/2")).text
    counted = shop.log().count()
    assert (counted["login wall"], counted["login redirect"], counted["product"]) == (2, 1, 5)


async def test_a_login_needs_its_token_and_the_password(shop: Shop, client: httpx.AsyncClient) -> None:
    assert "Wrong" in (await client.post("/login", data={"user": USER, "password": PASSWORD})).text
    assert "Wrong" in (await log_in(client, "wrong")).text
    assert not client.cookies
    await log_in(client)
    await log_in(client)  # while the first session is alive
    logins = shop.log().logins
    assert [(login.good, login.alive) for login in logins] == [(False, 0), (False, 0), (True, 0), (True, 1)]
    assert shop.log().logins_at_once() == 1


async def test_variants_are_on_two_pages(shop: Shop, client: httpx.AsyncClient) -> None:
    await log_in(client)
    skus = []
    for page in (1, 2):
        skus += re.findall(r'data-sku="([^"]+)"', (await client.get(f"/product/8/variants?page={page}")).text)
    assert skus == [variant.sku for variant in shop.catalogue.product(8).variants]


async def test_sold_out_twice(shop: Shop, client: httpx.AsyncClient) -> None:
    await log_in(client)
    texts = [(await client.get("/product/7")).text for _ in range(3)]
    assert ["sold out" in text for text in texts] == [True, True, False]


async def test_files_whole_and_in_part(shop: Shop, client: httpx.AsyncClient) -> None:
    for file in shop.catalogue.product(10).files:
        answer = await client.get(file.path)
        assert hashlib.sha256(answer.content).hexdigest() == file.sha256
        name = unquote(answer.headers["Content-Disposition"].partition("filename*=UTF-8''")[2])
        assert (name, answer.headers["Content-Type"]) == (file.name, file.media_type)
        half, etag = file.size // 2, answer.headers["ETag"]
        rest = await client.get(file.path, headers={"Range": f"bytes={half}-", "If-Range": etag})
        assert (rest.status_code, rest.content) == (206, answer.content[half:])
        assert rest.headers["Content-Range"] == f"bytes {half}-{file.size - 1}/{file.size}"
        other = await client.get(file.path, headers={"Range": f"bytes={half}-", "If-Range": '"other"'})
        assert (other.status_code, other.content) == (200, answer.content)


async def test_the_api_wants_a_signature_of_this_moment(client: httpx.AsyncClient) -> None:
    def signed(path: str, at: float) -> dict[str, str]:
        return {"X-Time": str(at), "X-Signature": signature(path, str(at))}

    now, entries, path = time.time(), dict[str, int](), "/api/stock"
    for headers in (
        {},
        signed("/api/other", now),
        signed(path, now - 60),
        {"X-Time": "x", "X-Signature": "y"},
    ):
        assert (await client.get(path, headers=headers)).status_code == 401
    while path:
        answer = (await client.get(path, headers=signed(path, now))).json()
        entries |= {entry["sku"]: entry["stock"] for entry in answer["entries"]}
        path = answer["next"] and f"/api/stock?cursor={answer['next']}"
    catalogue = Catalogue(60)
    assert entries == {catalogue.product(n).sku: catalogue.stock(n) for n in range(60)}


@pytest.mark.parametrize(
    "path", ["/product/60", "/product/999999999999", "/list?page=99", "/list?page=x", "/files/1/manual"]
)
async def test_what_is_not_there(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_an_odd_cursor_is_refused(client: httpx.AsyncClient) -> None:
    for cursor in ("x", "%FF", "YWZ0ZXI"):
        path, at = f"/api/stock?cursor={cursor}", str(time.time())
        headers = {"X-Time": at, "X-Signature": signature(path, at)}
        assert (await client.get(path, headers=headers)).status_code in (400, 404)


def test_the_log_tells_what_overlaps() -> None:
    def visit(started: float) -> Visit:
        return Visit("/", "GET", 200, "home", "", started, started + 1, 1)

    def login(began: float, account: str = USER) -> Login:
        return Login(account, began, began + 1, True, 0)

    log = ShopLog(
        [visit(at) for at in (5.0, 0.0, 0.5, 0.9, 2.0)], [login(0), login(0.5), login(0.7, "x"), login(2)]
    )
    assert log.logins_at_once() == 2
    assert log.most_in(1.0) == 3
    assert log.least_gap() == pytest.approx(0.4)


def test_in_a_process_of_its_own() -> None:
    spec = ShopSpec(products=3, file_bytes=100)
    with ShopProcess(spec) as shop:
        assert httpx.get(f"{shop.url}/product/0").status_code == 200
        [visit] = shop.log().visits
        assert (visit.path, visit.kind, visit.account, visit.concurrent) == (
            "/product/0",
            "login wall",
            "",
            1,
        )
        raw = msgspec.json.decode(httpx.get(f"{shop.url}/_log").content)
        assert set(raw) == {"visits", "logins"}
        assert len(shop.catalogue.all_files()) == 3

"""How the shop answers, path by path."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import Counter
from html import escape
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Struct

from shoal.testing.shop import markup
from shoal.testing.shop.accounts import Accounts
from shoal.testing.shop.catalogue import PER_CALL, PER_PAGE, Catalogue
from shoal.testing.shop.signing import is_signed

COOKIE = "shop_session"
KIND = web.RequestKey("kind", str)  # what was served, for the log
ACCOUNT = web.RequestKey("account", str)
_ROBOTS = "User-agent: *\nDisallow: /basket\n"
_FILE_PIECES = 8


class ShopSpec(Struct, frozen=True):
    products: int = 300
    file_bytes: int = 60_000  # of a PDF, about
    session_pages: int = 150  # members' pages that a login is good for
    latency: float = 0.0  # seconds before each answer
    login_latency: float = 0.0  # seconds before the answer to a login
    file_seconds: float = 0.0  # that a file takes
    private_files: bool = False  # files are for members, too
    signed_api: bool = True  # calls of the API need a signature
    sold_out: int = 2  # times that some products are
    members_only: bool = True  # prices are for members; False: nobody has to log in


class Routes:
    """A handler a path. Each notes in the request what it served, for the log."""

    def __init__(self, spec: ShopSpec) -> None:
        self.spec = spec
        self.catalogue = Catalogue(spec.products, spec.file_bytes)
        self.accounts = Accounts(spec.session_pages)
        self._seen_sold_out: Counter[int] = Counter()

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/robots.txt", self.robots),
            web.get("/", self.home),
            web.get("/list", self.listing),
            web.post("/search", self.search),
            web.get("/login", self.login_form),
            web.post("/login", self.log_in),
            web.get(r"/product/{number:\d+}", self.product),
            web.get(r"/product/{number:\d+}/variants", self.variants),
            web.get(r"/files/{number:\d+}/{which:manual|1\.png|2\.png}", self.file),
            web.get("/api/stock", self.stock),
            web.get(r"/api/stock/P-{number:\d+}", self.stock_of_one),
        ]

    async def robots(self, request: web.Request) -> web.Response:
        request[KIND] = "robots"
        return web.Response(text=_ROBOTS)

    async def home(self, request: web.Request) -> web.Response:
        return _html(request, "home", markup.home())

    async def listing(self, request: web.Request) -> web.Response:
        listed = self.catalogue.listed()
        page = _number(request.query.get("page", "1"))
        chosen = listed[(page - 1) * PER_PAGE : page * PER_PAGE]
        if not chosen:
            raise web.HTTPNotFound
        following = f"/list?page={page + 1}" if page * PER_PAGE < len(listed) else ""
        products = map(self.catalogue.product, chosen)
        return _html(request, "listing", markup.listing(f"Products, page {page}", products, following))

    async def search(self, request: web.Request) -> web.Response:
        """Wants every field that a browser sends, the hidden ones and the button too."""
        form = await request.post()
        if form.get("form_key") != markup.SEARCH_KEY or form.get("lang") != "en" or form.get("go") != "1":
            return _html(request, "bad search", markup.listing("Please use the form", ()), 400)
        found = self.catalogue.clearance() if form.get("in") == "sale" else []
        products = map(self.catalogue.product, found)
        return _html(request, "search", markup.listing("Found", products))

    # -- members

    async def login_form(self, request: web.Request) -> web.Response:
        return self._login_page(request, "login form", request.query.get("next", "/"))

    async def log_in(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        await asyncio.sleep(self.spec.login_latency)
        user, password, token = (str(form.get(name, "")) for name in ("user", "password", "csrf"))
        cookie = self.accounts.log_in(user, password, token, time.monotonic())
        if cookie is None:
            return self._login_page(request, "login refused", "/", refused=True)
        request[KIND], request[ACCOUNT] = "login", user
        following = str(form.get("next", "/"))
        answer = web.HTTPSeeOther(following if following.startswith("/") else "/")
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="Lax")
        raise answer

    def _login_page(
        self, request: web.Request, kind: str, following: str, *, refused: bool = False
    ) -> web.Response:
        token = self.accounts.token(time.monotonic())
        return _html(request, kind, markup.login(token, escape(following), refused))

    def _is_member(self, request: web.Request) -> bool:
        request[ACCOUNT] = self.accounts.visitor(request.cookies.get(COOKIE, ""))
        return bool(request[ACCOUNT]) or not self.spec.members_only

    def _wall(self, request: web.Request, number: int) -> web.StreamResponse:
        """Every other product leads to the login; the rest show it in their place, with status 200."""
        if number % 2:
            request[KIND] = "login redirect"
            raise web.HTTPFound(f"/login?next={quote(request.path_qs)}")
        return self._login_page(request, "login wall", request.path_qs)

    async def product(self, request: web.Request) -> web.StreamResponse:
        number = self._product_number(request)
        if not self._is_member(request):
            return self._wall(request, number)
        product = self.catalogue.product(number)
        if self.catalogue.sells_out(number) and self._seen_sold_out[number] < self.spec.sold_out:
            self._seen_sold_out[number] += 1
            return _html(request, "sold out", markup.sold_out(product.name))
        return _html(request, "product", markup.product(product))

    async def variants(self, request: web.Request) -> web.StreamResponse:
        number, page = self._product_number(request), _number(request.query.get("page", "1"))
        if not self._is_member(request):
            return self._wall(request, number)
        rows = self.catalogue.page_of_variants(number, page)
        title = f"Variants of {self.catalogue.product(number).name}, page {page}"
        return _html(request, "variants", markup.variants(title, rows))

    def _product_number(self, request: web.Request) -> int:
        number = _number(request.match_info["number"])
        if number >= self.spec.products:
            raise web.HTTPNotFound
        return number

    # -- files and the API

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Whole, or from where a Range begins."""
        number, which = self._product_number(request), request.match_info["which"]
        if not self.catalogue.has_files(number):
            raise web.HTTPNotFound
        if self.spec.private_files and not self._is_member(request):
            return self._wall(request, number)
        request[KIND] = "file"
        body = self.catalogue.content(number, which)
        path = f"/files/{number}/{which}"
        [described] = [file for file in self.catalogue.product(number).files if file.path == path]
        headers = {
            "Content-Type": described.media_type,
            "Content-Disposition": f"attachment; filename=\"{number}\"; filename*=UTF-8''{quote(described.name)}",
            "ETag": f'"{described.sha256[:16]}"',
            "Accept-Ranges": "bytes",
        }
        start = _start_of_range(request, headers["ETag"], len(body))
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return await self._send_file(request, body[start:], headers, 206 if start else 200)

    async def _send_file(
        self, request: web.Request, body: bytes, headers: dict[str, str], status: int
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=status, headers=headers)
        answer.content_length = len(body)
        size = len(body) // _FILE_PIECES + 1
        try:
            await answer.prepare(request)
            for at in range(0, len(body), size):
                await asyncio.sleep(self.spec.file_seconds / _FILE_PIECES)
                await answer.write(body[at : at + size])
            await answer.write_eof()
        except ConnectionError:
            request[KIND] = "part of a file"  # the visitor has gone
        return answer

    async def stock(self, request: web.Request) -> web.Response:
        if refusal := self._unsigned(request):
            return refusal
        start = _position(request.query.get("cursor", ""))
        numbers = range(start, min(start + PER_CALL, self.spec.products))
        entries = [self._entry(number) for number in numbers]
        following = _cursor(numbers.stop) if numbers.stop < self.spec.products else None
        return _json({"entries": entries, "next": following})

    async def stock_of_one(self, request: web.Request) -> web.Response:
        return self._unsigned(request) or _json(self._entry(self._product_number(request)))

    def _entry(self, number: int) -> dict[str, object]:
        return {"sku": self.catalogue.product(number).sku, "stock": self.catalogue.stock(number)}

    def _unsigned(self, request: web.Request) -> web.Response | None:
        """The answer to a call without a good signature."""
        request[KIND] = "api"
        at, given = request.headers.get("X-Time", ""), request.headers.get("X-Signature", "")
        if not self.spec.signed_api or is_signed(request.path_qs, at, given, time.time()):
            return None
        request[KIND] = "unsigned"
        return _json({"error": "the signature is missing, wrong or too old"}, 401)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def _html(request: web.Request, kind: str, text: str, status: int = 200) -> web.Response:
    request[KIND] = kind
    return web.Response(text=text, content_type="text/html", status=status)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not text.isascii():
        raise web.HTTPNotFound
    return int(text)


def _start_of_range(request: web.Request, etag: str, size: int) -> int:
    """Where to begin; 0 also if the range cannot be served, or is for another version of the file."""
    try:
        start = request.http_range.start or 0
    except ValueError:
        return 0
    if request.headers.get("If-Range", etag) != etag:
        return 0
    return int(start) if 0 < start < size else 0


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(f"after {position}".encode()).decode().rstrip("=")


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:  # also what is not base64 at all
        raise web.HTTPBadRequest from None
    return _number(text.removeprefix("after "))

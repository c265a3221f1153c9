"""The pages themselves, logging in and out, and what machines ask: health and metrics."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from msgspec import Struct

from shoal.dashboard.board import Board
from shoal.dashboard.responses import Refusal, media_type, read_body, read_json, reply
from shoal.errors import ShoalError
from shoal.telemetry.metrics import CONTENT_TYPE, render_store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_READY_PATIENCE = 2.0


_FOLDER = Path(__file__).parent / "static"

# Not left to the machine's own table: a script of another type is not run.
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


class Asset(Struct, frozen=True):
    body: bytes
    media_type: str
    etag: str


def _load_assets() -> Mapping[str, Asset]:
    """By path below the folder, with slashes."""
    files = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES and path.is_file())
    return {path.relative_to(_FOLDER).as_posix(): _asset(path) for path in files}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, _MEDIA_TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


# Read once: what is not among them cannot be asked for.
_ASSETS = _load_assets()


class Login(Struct, frozen=True):
    token: str


# -- pages


async def home(board: Board, request: Request) -> object:
    page = "login.html" if board.session_of(request) is None else "index.html"
    return _serve(_ASSETS.get(page), request)


async def login_page(board: Board, request: Request) -> object:
    from starlette.responses import RedirectResponse

    if board.session_of(request) is not None:
        return RedirectResponse("/", 303)  # who is in already has come by an old link
    return _serve(_ASSETS.get("login.html"), request)


async def static(board: Board, request: Request) -> object:
    return _serve(_ASSETS.get(request.path_params["path"]), request)


def _serve(asset: Asset | None, request: Request) -> Response:
    from starlette.responses import Response

    if asset is None:
        raise Refusal(404, "no such page")
    headers = {"cache-control": "no-cache", "etag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers, media_type=asset.media_type)


# -- in and out


async def log_in(board: Board, request: Request) -> object:
    from starlette.responses import RedirectResponse

    if not board.admits(await _token(request), request):
        raise Refusal(401, "this is not the token")
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        board.cookie,
        board.sessions.begin().id,
        path="/",
        httponly=True,
        samesite="strict",
        secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
    )
    return answer


async def _token(request: Request) -> str:
    if media_type(request) == "application/json":
        return (await read_json(request, Login)).token
    if media_type(request) != "application/x-www-form-urlencoded":
        raise Refusal(415, "send the token as a form or as JSON")
    form = parse_qs((await read_body(request)).decode("utf-8", "replace"))
    return form.get("token", [""])[0].strip()


async def log_out(board: Board, request: Request) -> object:
    session = board.session_of(request)
    assert session is not None
    board.sessions.end(session)
    answer = reply({})
    answer.delete_cookie(board.cookie, path="/", httponly=True, samesite="strict")
    return answer


# -- machines


async def healthz(board: Board, request: Request) -> object:
    return {"status": "ok"}


async def readyz(board: Board, request: Request) -> object:
    try:
        async with asyncio.timeout(_READY_PATIENCE):
            await board.frontier.now()
    except (TimeoutError, ShoalError):
        raise Refusal(503, "the store does not answer") from None
    return {"status": "ready"}


async def metrics(board: Board, request: Request) -> object:
    from starlette.responses import Response

    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    may = board.session_of(request) is not None
    if not may and scheme.lower() == "bearer":
        may = board.admits(token.strip(), request)
    if not may:
        answer = Refusal(401, "send the token: Authorization: Bearer …").reply()
        answer.headers["www-authenticate"] = "Bearer"
        return answer
    try:
        overview = await board.sampler.overview()
        holdups = await board.sampler.holdups(overview)
        text = render_store(overview, holdups.conditions, alarms=holdups.alarms)
    except (TimeoutError, ShoalError):
        text = render_store(None, up=False)
    return Response(text, media_type=CONTENT_TYPE)

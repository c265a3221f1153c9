"""The files of the pages, read once: what is not among them cannot be asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

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


@cache
def load_assets() -> Mapping[str, Asset]:
    """By path below the folder, with slashes."""
    files = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES and path.is_file())
    return {path.relative_to(_FOLDER).as_posix(): _asset(path) for path in files}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, _MEDIA_TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')

"""A page as two files that people read and edit: the body, and beside it what else the server said.

tests/pages/lamp.html   the body as it was received, without compression
tests/pages/lamp.json   URL, status, headers without secrets, when it was fetched

The body of an answer that is JSON is in `lamp.body.json`. A body without the second file is a page of status 200.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from multidict import CIMultiDict

from shoal.archive.records import is_secret_header
from shoal.errors import UsageError
from shoal.html.charset import codec_of
from shoal.html.media import is_json, kind_of, media_type
from shoal.model import Response, Task
from shoal.text import shown_url, without_secrets, writable

DEFAULT_URL = "https://site.example/"  # of a page that does not say where it is from

_MAY_BE_NAMED = re.compile(r"[^./\\\0][^/\\\0]*")
# Parameters whose values are no part of a file's name: names are seen by more people than files.
_SECRET_VALUE = re.compile(
    r"([?&;]([^=&;#]{0,80}?(?:passw|pwd|secret|token|credential|signature|session|api[_-]?key|access[_-]?key)[^=&;#]{0,80})=)"
    r"[^&;#]*",
    re.IGNORECASE,
)
_NAME = 80  # characters of a file's name
_BODY = ".body"  # before the suffix of a body that would have the name of its description
# Not true of a body that was decoded, and may be edited.
_ENCODINGS = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_SUFFIXES = {"html": ".html", "xhtml": ".html", "xml": ".xml"}


class Description(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The second file."""

    url: str
    status: int = 200
    headers: dict[str, str | list[str]] = {}  # a list: of a header that came several times
    fetched_at: datetime | None = None
    encoding: str = ""  # of the body, for whoever opens it in an editor; it is not read
    redirected_from: tuple[str, ...] = ()  # the URLs that led here, first one first


class SavedPage(Struct, frozen=True):
    task: Task
    response: Response
    at: float  # when it was fetched, seconds since the epoch; 0: not known
    path: Path  # of the body


def save_page(response: Response, folder: Path, *, task: Task, at: float, name: str = "") -> SavedPage:
    """Writes both files. Another page of the same URL is replaced, one of another URL with this name is not. Raises
    UsageError."""
    if name and not _MAY_BE_NAMED.fullmatch(name):
        raise UsageError(
            f"a page cannot be named {name!r}; choose a name without folders that does not begin with a dot"
        )
    body = response.body
    description = Description(
        url=shown_url(response.url),
        status=response.status,
        headers=_headers(response.headers),
        fetched_at=datetime.fromtimestamp(round(at, 3), UTC),
        encoding=codec_of(body, response.headers.get("Content-Type", "")),
        redirected_from=tuple(map(shown_url, task.hops)),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        suffix = _suffix(response)
        base = _free_name(folder, name or name_for(response.url), description.url, own=bool(name))
        path = folder / f"{base}{suffix}"
        before = _described_by(description_of(path))
        if before is not None and before != path:
            before.unlink()  # the same URL, when it was of another type
        _write(path, body)
        _write(description_of(path), _text(description))
    except OSError as error:
        raise UsageError(f"the page cannot be saved in {folder}: {error.strerror or error}") from error
    return SavedPage(task, response, at, path)


def read_saved(path: Path, *, url: str = "") -> SavedPage:
    """The page of a body's file, or of its description. `url` is that of a page that has no description. Raises
    UsageError."""
    path = body_of(path)
    try:
        body = path.read_bytes()
        beside = description_of(path)
        about = _read_description(beside) if beside != path else None
    except OSError as error:
        raise UsageError(f"the page {path} cannot be read: {error.strerror or error}") from error
    if about is None:
        about = Description(url or DEFAULT_URL)
    headers: CIMultiDict[str] = CIMultiDict()
    for name, given in about.headers.items():
        for value in [given] if isinstance(given, str) else given:
            headers.add(name, value)
    if "Content-Type" not in headers:
        headers["Content-Type"] = _type_of(path)
    at = about.fetched_at.timestamp() if about.fetched_at else 0.0
    task = Task(about.url, hops=about.redirected_from)
    return SavedPage(task, Response(about.url, about.status, headers, body, cached=True), at, path)


def saved_in(folder: Path) -> list[Path]:
    """The bodies of the saved pages in a folder and those below it: files that have a description."""
    found = (body for path in sorted(folder.rglob("*.json")) if (body := _described_by(path)) is not None)
    return [body for body in found if _read_description(description_of(body)) is not None]


def read_all(folder: Path) -> list[SavedPage]:
    """The saved pages in a folder and those below it. Raises UsageError, also if two are of the same URL."""
    pages = {path: read_saved(path) for path in saved_in(folder)}
    check_apart({path: page.response.url for path, page in pages.items()})
    return list(pages.values())


def check_apart(places: Mapping[Path, str]) -> None:
    """Raises UsageError if two pages would be at the same place."""
    taken: dict[str, Path] = {}
    for path, place in places.items():
        if (other := taken.setdefault(place, path)) != path:
            raise UsageError(
                f"{other} and {path} are both pages of {place}; give a folder with one of them, or pages one by one"
            )


def description_of(body: Path) -> Path:
    """Where the description of a body is."""
    return body.with_name(f"{body.stem.removesuffix(_BODY)}.json")


def body_of(path: Path) -> Path:
    """The body, if the path is that of a description. Others are bodies themselves."""
    if path.suffix != ".json" or path.stem.endswith(_BODY):
        return path
    return _described_by(path) or path


def secret_parameters(url: str) -> list[str]:
    """The names of those parameters of a URL whose values are probably secret."""
    return [found[2] for found in _SECRET_VALUE.finditer(url)]


def name_for(url: str) -> str:
    """A file's name that tells people which page it is: "shop.example-lamp-7"."""
    words = _SECRET_VALUE.sub(r"\1", shown_url(url).partition("://")[2] or url)
    words = re.sub(
        r"(/[^?#]*)\.[A-Za-z]{2,5}(?=$|[?#])", r"\1", words
    )  # the files have a suffix of their own
    name = re.sub(r"[^\w.]+", "-", words, flags=re.ASCII).strip("-.")
    if len(name) <= _NAME:
        return name or "page"
    digest = hashlib.sha256(url.encode(errors="replace")).hexdigest()
    return f"{name[: _NAME - 9]}-{digest[:8]}"


def _described_by(description: Path) -> Path | None:
    stem = description.name.removesuffix(".json")
    others = [path for path in description.parent.glob(f"{_literal(stem)}.*") if path != description]
    bodies = [path for path in sorted(others) if path.stem.removesuffix(_BODY) == stem and path.is_file()]
    return bodies[0] if bodies else None


def _literal(name: str) -> str:
    """For `glob`."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _read_description(path: Path) -> Description | None:
    """None: there is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Description)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path} does not describe a page: {error}; mend it, or save the page again with `shoal keep`"
        ) from None


def _headers(headers: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Without cookies and credentials."""
    kept: dict[str, str | list[str]] = {}
    names: dict[str, str] = {}
    for name, value in headers.items():
        low = name.lower()
        if low in _ENCODINGS or is_secret_header(low):
            continue
        value = without_secrets(value)
        name = names.setdefault(low, str(name))
        before = kept.get(name)
        if before is None:
            kept[name] = value
        else:
            kept[name] = [*([before] if isinstance(before, str) else before), value]
    return kept


def _suffix(response: Response) -> str:
    media = media_type(response.headers.get("Content-Type", ""))
    if is_json(media):
        return f"{_BODY}.json"
    kind = kind_of(media, response.body)
    return _SUFFIXES.get(kind) or mimetypes.guess_extension(media) or (".txt" if not media else ".bin")


def _type_of(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "text/html"


def _free_name(folder: Path, name: str, url: str, *, own: bool) -> str:
    """A name that no page of another URL has."""
    for tried in _names(name):
        path = folder / f"{tried}.json"
        if _is_of(path, url):
            return tried
        if own:
            raise UsageError(f"{path} exists and is not the page {url}; choose another name")
    raise AssertionError  # the names do not end


def _names(name: str) -> Iterable[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _is_of(path: Path, url: str) -> bool:
    """Whether a page of this URL may be written there."""
    try:
        about = _read_description(path)
    except UsageError:
        return False
    return about.url == url if about is not None else _described_by(path) is None


def _text(description: Description) -> bytes:
    plain = writable(msgspec.to_builtins(description))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

"""What a spider yields, compared with a file."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.admit.sending import sent_url
from shoal.archive.records import is_secret_header
from shoal.errors import UsageError
from shoal.model.request import Request
from shoal.runtime.results import Results
from shoal.sink.items import ItemRejected, encode_row
from shoal.spider.spider import Handler
from shoal.text import MASK, shown_url, without_secrets

_ANY = Handler("snapshot", print)  # takes every item
_LONG = 100  # characters of a file's name
_LINES, _CONTEXT = 500, 3  # of a difference that is shown
_UPDATE = "`pytest --shoal-update`"


class Snapshots:
    """The snapshots of one test: `folder/TEST.json`, `TEST-2.json` …, or `TEST-NAME.json`."""

    def __init__(self, folder: Path, test: str, *, update: bool) -> None:
        self._folder = folder
        self._test = test
        self._update = update
        self._taken: set[Path] = set()
        self.written: list[Path] = []

    def __call__(self, found: object, name: str = "", *, ignore: Collection[str] = ()) -> None:
        """Compares what a handler or a crawl gave with the file. `ignore`: fields that differ every time. The order of
        a crawl's items does not count."""
        __tracebackhide__ = True  # pytest shows the line of the test
        text = written(found, ignore)
        path = self._path(name)
        try:
            known = path.read_text("utf-8") if path.exists() else None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the snapshot {path} cannot be read: {error}") from None
        if known is not None and _same(known, text):
            return
        if self._update:
            self._write(path, text)
            return
        if known is None:
            raise AssertionError(f"there is no snapshot {path}: {_UPDATE} writes it\n{text}")
        raise AssertionError(
            f"{path} differs; if that is right, {_UPDATE} writes it anew\n{_diff(known, text)}"
        )

    def _write(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"the snapshot {path} cannot be written: {error.strerror or error}") from None
        self.written.append(path)

    def _path(self, name: str) -> Path:
        number = 1
        while True:
            parts = [self._test, name, str(number) if number > 1 else ""]
            path = self._folder / f"{file_name('-'.join(filter(None, parts)))}.json"
            if path not in self._taken:
                self._taken.add(path)
                return path
            if name:
                raise UsageError(f"two snapshots of {self._test} are named {name!r}; give one another name")
            number += 1


def written(found: object, ignore: Collection[str] = ()) -> str:
    """As JSON for people to read."""
    if isinstance(found, Results):
        rows = [_plain(item, ignore) for item in found]
        plain: object = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    elif isinstance(found, Iterable) and not isinstance(found, Mapping | str | bytes):
        plain = [_plain(one, ignore) for one in found]
    else:
        plain = _plain(found, ignore)
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def file_name(test: str) -> str:
    """Of a test, as in `test_price[lamp]`. What is left out or cut is told apart by a hash."""
    plain = re.sub(r"\[(.*)\]", r"-\1", test)
    name = re.sub(r"[^\w.-]+", "-", plain, flags=re.ASCII)[:_LONG]
    if name == plain:
        return name
    digest = hashlib.sha256(test.encode(errors="replace")).hexdigest()
    return f"{name}-{digest[:6]}"


def _plain(value: object, ignore: Collection[str]) -> Any:
    if isinstance(value, Request):
        return {"request": _request(value)}
    try:
        plain = json.loads(encode_row(value, _ANY).data)
    except ItemRejected as error:
        raise UsageError(f"{type(value).__name__} cannot be compared with a snapshot: {error}") from None
    if isinstance(plain, dict):
        return {key: MASK if key in ignore else one for key, one in plain.items()}
    return plain


def _request(request: Request) -> dict[str, object]:
    """What is not usual of it. Cookies and credentials are left out: snapshots are committed."""
    shown: dict[str, object] = {"url": shown_url(sent_url(request.url, request.base) or request.url)}
    for name, usual in zip(request.__struct_fields__[1:], request.__struct_defaults__, strict=True):
        value = getattr(request, name)
        if name == "base" or value == usual:
            continue
        if name == "headers":
            value = {key: MASK if is_secret_header(key.lower()) else one for key, one in value.items()}
        if name == "body":
            value = without_secrets(value.decode("utf-8", "replace"))
        shown[name] = MASK if name == "proxy" else value
    return shown


def _same(known: str, text: str) -> bool:
    try:
        return bool(json.loads(known) == json.loads(text))
    except ValueError:
        return False


def _diff(known: str, text: str) -> str:
    """From the first difference on. To compare many lines takes a time that grows with their square."""
    old, new = known.splitlines(), text.splitlines()
    pairs = enumerate(zip(old, new, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(len(old), len(new)))
    begin = max(0, same - _CONTEXT)
    shown = old[begin : begin + _LINES], new[begin : begin + _LINES]
    lines = list(difflib.unified_diff(*shown, "snapshot", "found", lineterm="", n=_CONTEXT))
    if max(len(old), len(new)) > begin + _LINES:
        lines.append("… there may be more differences below")
    return "\n".join(lines)

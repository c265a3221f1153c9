"""Files and rows in an object store (S3, Google Cloud Storage, Azure …), by obstore. An object is there when it is
whole. Keys and regions come from the environment, as for other tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from shoal.errors import SettingsError, SinkAway

T = TypeVar("T")

_STATUS = re.compile(r"status code: (\d{3} [A-Z][A-Za-z ]*)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\"code\": ?\"(\w{1,60})\"")
_METADATA = "169.254.169.254"  # where machines of a cloud get their keys
# The caller tries again for as long as it takes. A try should be short: it holds a thread.
_RETRIES: Any = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2), "base": 2},
}


def is_object_store(setting: str) -> bool:
    return "://" in setting


class ObjectStore:
    """A prefix in a bucket. `option`: what the user has named it with, for messages."""

    def __init__(self, url: str, option: str = "files:") -> None:
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise SettingsError(
                f"{option} the address holds a user or password; leave it out, and set the keys in the environment"
            )
        if parts.query or parts.fragment:
            raise SettingsError(f"{option} {parts.scheme}://{parts.netloc}{parts.path} takes no ? and no #")
        try:
            self._library = import_module("obstore")
            self._errors: type[Exception] = import_module("obstore.exceptions").BaseError
        except ModuleNotFoundError:
            raise SettingsError(
                f"{option} an object store needs obstore: pip install 'shoal[objects]'"
            ) from None
        self.url = url.rstrip("/")
        try:
            self._store: Any = import_module("obstore.store").from_url(self.url, retry_config=_RETRIES)
        except (self._errors, ValueError) as error:
            text = _first_line(error)
            if "Account must be specified" in text:
                text = "set AZURE_STORAGE_ACCOUNT_NAME in the environment"
            raise SettingsError(f"{option} {self.url} cannot be used: {text}") from None

    def __repr__(self) -> str:
        return f"<ObjectStore {self.url}>"

    def put(self, part: Path | bytes | Iterable[bytes], key: str) -> str:
        """Stores a file under that key, in place of what is there; answers its address."""
        self._told(lambda: self._library.put(self._store, key, part))
        return f"{self.url}/{key}"

    def put_once(self, part: Path, folder: str, name: str, size: int) -> str:
        """Stores a file in a folder named after its content, unless the content is there."""
        there = self._told(lambda: self._library.list(self._store, prefix=folder).collect())
        known = [one["path"] for one in there if one["size"] == size]
        return f"{self.url}/{min(known)}" if known else self.put(part, f"{folder}/{name}")

    def get(self, key: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                return bytes(self._library.get(self._store, key).bytes())
            except FileNotFoundError as error:
                if _code(str(error)) == "NoSuchBucket":
                    raise
                return None

        return self._told(read)

    def sizes(self) -> dict[str, int]:
        """All keys below the address, with the bytes of their objects."""
        return self._told(lambda: dict(self._listed()))

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._told(lambda: self._library.delete(self._store, list(keys)))

    def _listed(self) -> Iterator[tuple[str, int]]:
        for some in self._library.list(self._store):
            for one in some:
                yield one["path"], one["size"]

    def _told(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (self._errors, OSError) as error:
            reason, lasts = why(error)
            advice = "nothing is lost: put it right, and run the same command again"
            raise SinkAway(self.url, reason, advice, lasts=lasts) from None


def why(error: Exception) -> tuple[str, bool]:
    """What is wrong, without what the server answered, which may hold keys; and whether that lasts until somebody mends
    it."""
    text = _first_line(error)
    code, status = _code(str(error)), _STATUS.search(text)
    said = " ".join(filter(None, [status[1].strip() if status else "", f"({code})" if code else ""]))
    if _METADATA in text:
        names = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return f"no keys: set {names}, or those of your cloud, in the environment", True
    if code == "NoSuchBucket":
        return f"there is no such bucket: {said}", True
    if said.startswith(("401", "403")):
        return f"the keys in the environment do not allow it: {said}", True
    if "redirect without LOCATION" in text:
        return "the bucket is in another region: set AWS_REGION", True
    if "error sending request" in text:
        return "no connection to the server" + _endpoint(text), False
    return said or text[:200], False


def _endpoint(text: str) -> str:
    found = re.search(r"(https?)://([^/\s@]+)/", text)
    return f" ({found[1]}://{found[2]})" if found else ""


def _code(text: str) -> str:
    found = _CODE.search(text)
    return found[1] or found[2] if found else ""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

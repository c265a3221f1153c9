"""Downloaded files in an object store (S3, Google Cloud Storage, Azure …), by obstore. An object is there when it is
whole. Keys and regions come from the environment, as for other tools."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from shoal.errors import SettingsError, SinkError

T = TypeVar("T")


def is_object_store(setting: str) -> bool:
    return "://" in setting


class ObjectStore:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise SettingsError(
                "files: the address holds a user or password; leave it out, and set the keys in the environment"
            )
        try:
            self._library = import_module("obstore")
            self._errors: type[Exception] = import_module("obstore.exceptions").BaseError
        except ModuleNotFoundError:
            raise SettingsError(
                "files: an object store needs obstore: pip install 'shoal[objects]'"
            ) from None
        self.url = url.rstrip("/")
        try:
            self._store: Any = import_module("obstore.store").from_url(self.url)
        except (self._errors, ValueError) as error:
            raise SettingsError(f"files: {self.url} cannot be used: {_first_line(error)}") from None

    def __repr__(self) -> str:
        return f"<ObjectStore {self.url}>"

    def put(self, part: Path, key: str) -> str:
        """Stores a file under that key, in place of what is there; answers its address."""
        self._told(lambda: self._library.put(self._store, key, part))
        return f"{self.url}/{key}"

    def put_once(self, part: Path, folder: str, name: str, size: int) -> str:
        """Stores a file in a folder named after its content, unless the content is there."""
        there = self._told(lambda: self._library.list(self._store, prefix=folder).collect())
        known = [one["path"] for one in there if one["size"] == size]
        return f"{self.url}/{min(known)}" if known else self.put(part, f"{folder}/{name}")

    def _told(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (self._errors, OSError) as error:
            raise SinkError(
                f"cannot write to {self.url}: {_first_line(error)}; nothing is lost: put it right, and run the same"
                " command again"
            ) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

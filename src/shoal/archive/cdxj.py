"""The index as CDXJ, the format of pywb: a sorted line for each record, by SURT key and time.

com,example,shop)/p?id=1 20261116153000 {"url": …, "mime": …, "digest": …, "length": …, "offset": …, "filename": …}
"""

from __future__ import annotations

import os
import re
import time
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from shoal.archive.index import Index

NAME = "index.cdxj"
_COLUMNS = "name, offset, url, at, kind, type, status, digest, length"
_encode = msgspec.json.Encoder().encode
_WWW = re.compile(r"www\d*\.")
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_SESSION = re.compile(
    r"(?:^|(?<=&))(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24})(?=&|$)&?"
)
# In this form the path is its own key: lower case, nothing encoded, no empty parts, no slash at the end.
_SIMPLE = re.compile(r"http://([a-z0-9.-]+(?::[1-9][0-9]*)?)((?:/[a-z0-9._~-]+)+)")
_PORTS = {"http": 80, "https": 443}


def export(index: Index) -> None:
    """Writes the whole index beside the WARC files. Readers see the old file or the new one."""
    path = index.folder / NAME
    part = path.with_name(f".{NAME}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(map(_line, index.in_order_of(surt, _COLUMNS)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _line(row: tuple[Any, ...]) -> str:
    key, name, offset, url, at, kind, media, status, digest, length = row
    fields = {
        "url": url,
        "mime": "warc/revisit" if kind == "revisit" else media or "unk",
        "status": str(status),
        "digest": digest,
        "length": str(length),
        "offset": str(offset),
        "filename": name,
    }
    moment = time.strftime("%Y%m%d%H%M%S", time.gmtime(at))
    return f"{key} {moment} {_encode(fields).decode()}\n"


def surt(url: str) -> str:
    """The key of a URL, as pywb makes it: the host from right to left, without www., in lower case; the path without
    empty parts, the arguments in order and without ids of sessions."""
    if simple := _SIMPLE.fullmatch(url):
        return f"{_host_key(simple[1])}){simple[2]}"
    try:
        parts = urlsplit(url.strip().lower())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return url.lower()
    key = _reversed(host)
    if port is not None and port != _PORTS.get(parts.scheme):
        key += f":{port}"
    path = re.sub(r"/{2,}", "/", _plain(parts.path))
    query = "&".join(sorted(_SESSION.sub("", _plain(parts.query)).strip("&").split("&")))
    return f"{key}){path.rstrip('/') or '/'}{'?' + query if query else ''}"


@lru_cache(maxsize=1024)
def _host_key(host: str) -> str:
    """Of the host and port of an http URL."""
    name, _, port = host.partition(":")
    return _reversed(name) + (f":{port}" if port and port != "80" else "")


def _reversed(host: str) -> str:
    host = _WWW.sub("", host, count=1) if _WWW.match(host) else host
    return host if ":" in host else ",".join(reversed(host.split(".")))


def _plain(text: str) -> str:
    """Each character encoded or not as pywb does it, whatever the URL has."""
    return quote(unquote_to_bytes(text), safe=_SAFE).lower()

"""The index as CDXJ, the format of pywb: a sorted line for each record, by SURT key and time.

com,example,shop)/p?id=1 20261116153000 {"url": …, "mime": …, "digest": …, "length": …, "offset": …, "filename": …}
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from shoal.archive.index import Index, Place

NAME = "index.cdxj"
_WWW = re.compile(r"www\d*\.")
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_SESSION = re.compile(
    r"(?:^|(?<=&))(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24})(?=&|$)&?"
)
_PORTS = {"http": 80, "https": 443}


def export(index: Index) -> None:
    """Writes the whole index beside the WARC files. Readers see the old file or the new one."""
    path = index.folder / NAME
    part = path.with_name(f".{NAME}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(map(_line, index.in_order_of(surt)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _line(place: Place) -> str:
    entry = place.entry
    fields = {
        "url": entry.url,
        "mime": "warc/revisit" if entry.kind == "revisit" else entry.type or "unk",
        "status": str(entry.status),
        "digest": entry.digest,
        "length": str(entry.length),
        "offset": str(place.offset),
        "filename": place.file,
    }
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y%m%d%H%M%S")
    return f"{surt(entry.url)} {at} {msgspec.json.encode(fields).decode()}\n"


def surt(url: str) -> str:
    """The key of a URL, as pywb makes it: the host from right to left, without www., in lower case; the path without
    empty parts, the arguments in order and without ids of sessions."""
    try:
        parts = urlsplit(url.strip().lower())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return url.lower()
    host = _WWW.sub("", host, count=1) if _WWW.match(host) else host
    key = host if ":" in host else ",".join(reversed(host.split(".")))
    if port is not None and port != _PORTS.get(parts.scheme):
        key += f":{port}"
    path = re.sub(r"/{2,}", "/", _plain(parts.path))
    query = "&".join(sorted(_SESSION.sub("", _plain(parts.query)).strip("&").split("&")))
    return f"{key}){path.rstrip('/') or '/'}{'?' + query if query else ''}"


def _plain(text: str) -> str:
    """Each character encoded or not as pywb does it, whatever the URL has."""
    return quote(unquote_to_bytes(text), safe=_SAFE).lower()

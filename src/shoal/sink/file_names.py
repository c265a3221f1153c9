"""The name of a downloaded file: from Content-Disposition (RFC 6266), else from the URL; safe on every system."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from mimetypes import MimeTypes
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from shoal.limits import KB

_LONGEST = 150  # bytes; most file systems take 255
_LONGEST_ENDING = 20
_READ = 8 * KB  # of a header
_FORBIDDEN = re.compile(r'[<>:"|?*\\/]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)", re.IGNORECASE)
_TOKEN = r"[!#$&+\-.^_`|~0-9A-Za-z]+"
# A parameter: its name, and a quoted or a plain value. Plain ones may hold what they must not, as browsers allow.
_PARAMETER = re.compile(rf';\s*({_TOKEN}\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))', re.DOTALL)
_EXTENDED = re.compile(r"(utf-8|iso-8859-1)'[^']*'(.*)", re.IGNORECASE | re.DOTALL)


def file_name(given: str, url: str, media_type: str) -> str:
    """The name to store a file under: the one that the server gave, else that of the URL. `media_type` gives the ending
    of a name that has none."""
    name = safe_name(given or _name_in(url))
    if "." not in name:
        name = safe_name((name or "file") + (_endings().guess_extension(media_type) or ""))
    return name


@cache
def _endings() -> MimeTypes:
    """Python's own table: that of the system may be any."""
    return MimeTypes(filenames=())


def disposition_name(header: str) -> str:
    """What a Content-Disposition header calls the file; "": nothing. `filename*` wins."""
    found: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(";" + header[:_READ].partition(";")[2]):
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain.strip()
        found.setdefault(name.lower(), value)
    extended = _EXTENDED.fullmatch(found.get("filename*", ""))
    if extended is not None:
        try:
            return unquote_to_bytes(extended[2]).decode(extended[1])
        except UnicodeDecodeError:
            pass
    return _as_text(found.get("filename", ""))


def _as_text(value: str) -> str:
    """Bytes beyond ASCII, which a header must not hold, as UTF-8 if they are that."""
    data = value.encode("utf-8", "surrogateescape")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _name_in(url: str) -> str:
    last = urlsplit(url).path.rpartition("/")[2]
    return unquote(last, errors="replace")


def safe_name(name: str) -> str:
    """The name without folders and without anything that a system or a shell could take for something else; "" if
    nothing is left."""
    name = unicodedata.normalize("NFC", name.replace("\\", "/").rpartition("/")[2])
    name = "".join(one for one in name if unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    name = _FORBIDDEN.sub("_", name).strip(" .-~")
    if _RESERVED.match(name):
        name = f"_{name}"
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > _LONGEST_ENDING:
        stem, ending = name, ""
    room = _LONGEST - len(ending.encode()) - 1
    stem = stem.encode()[:room].decode(errors="ignore").rstrip(" .")
    return f"{stem}.{ending}" if ending and stem else stem

"""Text for people and for stores: secrets removed, commands to type, values as MessagePack.

No other module removes secrets. By the URL standard, user and password end at the last "@" before the first / ? or #.
Passwords that should have been encoded and were not are removed as well; then rather too much is removed than too
little.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from shoal.limits import DETAIL

SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})  # credentials
MASK = "…"  # replaces a secret

# No match of a pattern below goes beyond the next place where it can start, so all take linear time.
# From the start of a piece between slashes to its last "@".
_BEFORE_AT = re.compile(r"(?<![^/\\?#\s])[^/\\?#\s]+@")
_AUTHORITY = re.compile(r"([/\\]{2}|:[/\\])\Z")  # browsers take all of these for "//"
_SCHEME = re.compile(r"https?:", re.IGNORECASE)
# The user before a password, without a scheme.
_LOGIN = re.compile(r"""(?<![\w.~%+-])(?:[\w.~%+-]+:|:(?!["']))""")
_MAIL = re.compile(r"mailto:[^:]*\Z", re.IGNORECASE)

# A user, a colon, and no port. Then whatever follows is a password, with blanks …
_USER = r"(?:[/\\]{2}|:[/\\])[^/\\?#\s@:\[\]]*:(?![0-9]*(?:[/?#\s]|\Z))"
_BLANKS = re.compile(rf"({_USER})[^/\\?#\r\n]*@")
# … or with / ? #, if no "@" comes before those.
_PIECE = re.compile(r"(?<!\S)\S+@")
_SLASHES = re.compile(rf"({_USER})[^/\\?#@]*[/\\?#]")

# A URL as the value of a query.
_ENCODED = re.compile(r"%2f%2f(?:(?!%2f|%3f|%23)[^\s/?#&])*%40", re.IGNORECASE)

# password=…, also in quotes with backslashes, as libpq and Python write it; and the JSON of that.
_PASSWORD = re.compile(
    r"""(password|passwd)(["']?\s*=\s*|["']\s*:\s*)('(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?|[^\s&;]+)""",
    re.IGNORECASE | re.DOTALL,
)


def one_line(text: str) -> str:
    """The text as one line without secrets, of at most DETAIL characters."""
    text = without_secrets(" ".join(text[: 20 * DETAIL].split()))  # the text may be a whole page
    return text if len(text) <= DETAIL else f"{text[: DETAIL - 1]}…"


def error_line(error: BaseException) -> str:
    """An exception of other code, as "ValueError: too high"."""
    said = str(error)
    return one_line(f"{type(error).__name__}: {said}") if said else type(error).__name__


_hidden: list[str] = []  # secrets of this process, the longest first: one may be part of another
_SHORTEST_SECRET = 4  # shorter values would blot out half of a message


def hide(secret: str) -> None:
    """Has `without_secrets` remove this text from now on, also as part of a URL."""
    if len(secret) >= _SHORTEST_SECRET:
        known = {*_hidden, secret, quote(secret, safe=""), quote_plus(secret)}
        _hidden[:] = sorted(known, key=len, reverse=True)


def without_secrets(text: str) -> str:
    """The text without users and passwords in URLs, however oddly they are written, without values of `password=`, and
    without what was hidden."""
    for secret in _hidden:
        text = text.replace(secret, MASK)
    if "@" in text:
        text = _BLANKS.sub(_start, text)
        text = _PIECE.sub(_cut, text)
        text = _BEFORE_AT.sub(_scrubbed, text)
    if "%40" in text:
        text = _ENCODED.sub(lambda found: found[0][:6], text)
    return _PASSWORD.sub(rf"\1\2{MASK}", text) if "passw" in text.lower() else text


def shown_url(url: str) -> str:
    """One URL without secrets. As in browsers, line ends and tabs are skipped, and other blanks are part of it."""
    if "@" not in url:
        return without_secrets(url)
    return without_secrets(re.sub(r"\s", "%20", re.sub(r"[\t\r\n]", "", url)))


def unreadable_url(url: str) -> str:
    """A URL that does not parse, without everything before its last "@": the end of its password is not known."""
    head, at, tail = url.rpartition("@")
    scheme = re.match(r"[a-z][a-z0-9+.-]*:(?=[/\\])|https?:", head, re.IGNORECASE)
    return without_secrets(f"{scheme[0]}{tail}" if at and scheme else tail)


def _start(found: re.Match[str]) -> str:
    """Keeps only the text before the user."""
    return found[0][:2]


def _scrubbed(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - 2) : found.start()]
    piece = found[0]
    if _AUTHORITY.search(before):
        return ""
    if scheme := _SCHEME.match(piece):
        return scheme[0]
    login = _LOGIN.search(piece)
    return piece if login is None or _MAIL.match(piece, login.start()) else piece[: login.start()]


def _cut(found: re.Match[str]) -> str:
    odd = _SLASHES.search(found[0])
    return found[0] if odd is None else found[0][: odd.start() + 2]


# -- commands for people to type, with the store of this process

# " --store …", or "" for the default; of the current task and the tasks it starts.
at_store: ContextVar[str] = ContextVar("shoal-at-store", default="")


def command(words: str) -> str:
    """A command such as "shoal status --store redis://queue/"."""
    return f"shoal {words}{at_store.get()}"


# -- values as MessagePack
#
# Text may hold lone surrogates: bytes of a header that are not UTF-8, or half a character in a script's JSON. They
# cannot be encoded and would stop a whole crawl, so they become U+FFFD.

# What decoding raises for invalid bytes. msgspec passes on the error for text that is not UTF-8.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_encode_sorted = msgspec.msgpack.Encoder(order="deterministic").encode


def pack(value: object) -> bytes:
    return _packed(value, _encode)


def pack_sorted(value: object) -> bytes:
    """The same bytes for equal values, whatever the order of their keys."""
    try:
        return _packed(value, _encode_sorted)
    except TypeError:  # msgspec orders keys that are texts only; what cannot be packed at all raises again
        return _packed(_in_order(value), _encode)


def _in_order(value: Any) -> Any:
    """A value with its keys in the order of their bytes: numbers and texts cannot be compared."""
    match value:
        case dict():
            return {key: _in_order(value[key]) for key in sorted(value, key=pack_sorted)}
        case list() | tuple():
            return [_in_order(one) for one in value]
        case set() | frozenset():
            return sorted(value, key=pack_sorted)
    return value


def _packed(value: object, encode: Callable[[object], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(writable(msgspec.to_builtins(value, builtin_types=(bytes,))))


def writable(value: Any) -> Any:
    """A plain value with lone surrogates replaced."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {writable(key): writable(one) for key, one in value.items()}
        case tuple():  # it may be a key
            return tuple(writable(one) for one in value)
        case list():
            return [writable(one) for one in value]
    return value

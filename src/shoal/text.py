"""Text that people and stores get to see: without what may be secret. Nothing else in Shoal takes secrets out of text.

Where a user and a password end is what the URL standard says: at the last "@" before the first / ? or #. Passwords
that should have been encoded and were not are looked for as well; then rather too much is taken out than too little.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from shoal.limits import DETAIL

SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})  # prove who we are
MASK = "…"  # stands for a secret that is not shown or written down

# Every pattern below starts at places that no run of it goes beyond, so all take linear time.
_BEFORE_AT = re.compile(
    r"(?<![^/\\?#\s])[^/\\?#\s]+@"
)  # from the start of a piece between slashes to its last "@"
_AUTHORITY = re.compile(r"([/\\]{2}|:[/\\])\Z")  # browsers take all of these for "//"
_SCHEME = re.compile(r"https?:", re.IGNORECASE)
_LOGIN = re.compile(
    r"""(?<![\w.~%+-])(?:[\w.~%+-]+:|:(?!["']))"""
)  # the user before a password, without a scheme
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
    """The text as one line without secrets, of no more than so much."""
    text = without_secrets(" ".join(text[: 20 * DETAIL].split()))  # a whole page need not be read for that
    return text if len(text) <= DETAIL else f"{text[: DETAIL - 1]}…"


def error_line(error: BaseException) -> str:
    """What somebody else's code has raised, as "ValueError: too high"."""
    said = str(error)
    return one_line(f"{type(error).__name__}: {said}") if said else type(error).__name__


def without_secrets(text: str) -> str:
    """The text, in which no URL has a user or a password, however oddly it is written, and no `password=` a value."""
    if "@" in text:
        text = _BLANKS.sub(_start, text)
        text = _PIECE.sub(_cut, text)
        text = _BEFORE_AT.sub(_scrubbed, text)
    if "%40" in text:
        text = _ENCODED.sub(lambda found: found[0][:6], text)
    return _PASSWORD.sub(rf"\1\2{MASK}", text) if "passw" in text.lower() else text


def shown_url(url: str) -> str:
    """One URL, as `without_secrets`. Browsers skip line ends and tabs in it, and other blanks are part of it."""
    if "@" not in url:
        return without_secrets(url)
    return without_secrets(re.sub(r"\s", "%20", re.sub(r"[\t\r\n]", "", url)))


def unreadable_url(url: str) -> str:
    """One that does not parse: where its user and password end is not known, so all before the last "@" goes."""
    head, at, tail = url.rpartition("@")
    scheme = re.match(r"[a-z][a-z0-9+.-]*:(?=[/\\])|https?:", head, re.IGNORECASE)
    return without_secrets(f"{scheme[0]}{tail}" if at and scheme else tail)


def _start(found: re.Match[str]) -> str:
    """Only what comes before the user's name."""
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


# -- Commands that a person is told to type, with the store that this process works on.


# " --store …", or "": the default. Of this task, and of those that it begins.
at_store: ContextVar[str] = ContextVar("shoal-at-store", default="")


def command(words: str) -> str:
    """Such as "shoal status --store redis://queue/"."""
    return f"shoal {words}{at_store.get()}"


# -- Values as MessagePack, whatever text is in them.
#
# Text from elsewhere may hold lone surrogates: bytes of a header that are no UTF-8, or half a character in a script's
# JSON. They can be written nowhere, so they become U+FFFD before they would stop a whole crawl.


# What decoding raises for bytes that are no such value. msgspec hands on the error of a text that is no UTF-8.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_encode_sorted = msgspec.msgpack.Encoder(order="deterministic").encode


def pack(value: object) -> bytes:
    return _packed(value, _encode)


def pack_sorted(value: object) -> bytes:
    """The same bytes for equal values, whatever the order of their keys."""
    return _packed(value, _encode_sorted)


def _packed(value: object, encode: Callable[[object], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(writable(msgspec.to_builtins(value, builtin_types=(bytes,))))


def writable(value: Any) -> Any:
    """A plain value, in which all text can be encoded."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {writable(key): writable(one) for key, one in value.items()}
        case list() | tuple():
            return [writable(one) for one in value]
    return value

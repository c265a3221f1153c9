"""Recognises a challenge by status, headers and body. Pure, and quick: it looks at every answer.

An ordinary page is waved through after a few comparisons, because it has links and text. So a shop whose contact form
has a captcha, or an article about captchas, is no challenge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from shoal.fetch.challenge.signs import (
    COOKIES,
    HEADERS,
    PASSWORDS,
    PHRASES,
    ROOTS,
    VENDORS,
    WIDGETS,
    Sign,
)
from shoal.model import Response
from shoal.settings import ChallengeKind

REFUSALS = frozenset({403, 405, 406, 429, 503, 999})

_LARGEST = 64 * 1024  # a larger page that was not refused is a page
_HEAD = 32 * 1024  # where markers are looked for
_MANY_LINKS = 16
_MANY_TAGS = 500
_LITTLE = 600  # bytes of text that a wall has at most
_HARDLY_ANY = 200  # … and a shell

_SPACE = b" \t\r\n\f"
_UNSEEN = re.compile(rb"<(script|style|noscript|template|title|svg)\b")
_DETOURS: tuple[tuple[ChallengeKind, re.Pattern[str]], ...] = (
    ("login_wall", re.compile(r"/(?:log-?in|sign[-_]?in|logon|authwall|sso)(?:[/.;]|$)", re.IGNORECASE)),
    ("captcha", re.compile(r"/(?:show|validate)?captcha(?:[/.;]|$)|/sorry/index$", re.IGNORECASE)),
)


class Challenge(Struct, frozen=True):
    kind: ChallengeKind
    vendor: str  # "": nobody in particular
    sign: str  # what gave it away

    def __str__(self) -> str:
        by = f" by {self.vendor}" if self.vendor else ""
        return f"{self.kind.replace('_', ' ')}{by}: {self.sign}"


def detect(response: Response, asked: str | None = None) -> Challenge | None:
    """What stands in the way of the page, if anything does. `asked` is the URL before any redirects."""
    status = response.status
    if status in REFUSALS:
        return _by_headers(response) or _refusal(response)
    if not 200 <= status < 300:
        return None
    if asked is not None and asked != response.url and (found := _detour(asked, response.url)):
        return found
    if status != 200 and (found := _by_headers(response)):
        return found
    body = response.body
    if not body or len(body) > _LARGEST or _has_many_links(body) or not _is_html(response.headers):
        return None
    return _interstitial(body.lower())


# -- headers and URL


def _by_headers(response: Response) -> Challenge | None:
    for sign in HEADERS:
        value = response.headers.get(sign.header)
        if value is None or not value.lower().startswith(sign.value):
            continue
        if sign.status in (0, response.status):
            shown = f"header {sign.header}: {sign.value}" if sign.value else f"header {sign.header}"
            return Challenge(sign.kind, sign.vendor, shown)
    return None


def _is_html(headers: Mapping[str, str]) -> bool:
    media_type = headers.get("Content-Type", "")
    return not media_type or "html" in media_type.lower()


def _detour(asked: str, url: str) -> Challenge | None:
    """A redirect to where nobody wanted to go."""
    before, after = _path(asked), _path(url)
    for kind, path in _DETOURS:
        if path.search(after) and not path.search(before):
            return Challenge(kind, "", f"redirected to {after[:100]}")
    return None


def _path(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2].partition("?")[0]


# -- bodies


def _refusal(response: Response) -> Challenge | None:
    body = response.body[:_LARGEST].lower()
    head = body[:_HEAD]
    sign = _first(VENDORS, head) or _first(_phrases(response.status), head)
    if sign is not None:
        return _seen(sign)
    text = readable(body, _LITTLE)
    if text < _LITTLE and (sign := _first(WIDGETS, head)):
        return _seen(sign)
    if text < _HARDLY_ANY and (b"<script" in head or b"<iframe" in head):
        return _guarded(response)
    return None


def _phrases(status: int) -> Sequence[Sign]:
    # A plain 429 is handled as such, whatever its body says.
    return [sign for sign in PHRASES if sign.kind != "rate_wall"] if status == 429 else PHRASES


def _guarded(response: Response) -> Challenge | None:
    """A refusal that is hardly more than a script, from a host that a vendor guards."""
    for name, value in response.headers.items():
        if name.lower() == "set-cookie":
            cookie = value.lower()
            for prefix, vendor in COOKIES:
                if cookie.startswith(prefix):
                    return Challenge(
                        "bot_wall", vendor, f"HTTP {response.status} with cookie {prefix} and a script"
                    )
    return None


def _interstitial(body: bytes) -> Challenge | None:
    """A page that was not refused but has little to read."""
    text = readable(body, _LITTLE)
    if text >= _LITTLE:
        return None
    head = body[:_HEAD]
    sign = _first(VENDORS, head) or _first(PHRASES, head) or _first(WIDGETS, head)
    if sign is not None and (sign.kind != "login_wall" or any(field in body for field in PASSWORDS)):
        return _seen(sign)
    if text < _HARDLY_ANY and b"<script" in body:
        for root in ROOTS:
            if root in body:
                return Challenge("empty_shell", "", f"hardly any text, but scripts and {root.decode()}")
    return None


def _has_many_links(body: bytes) -> bool:
    at = 0
    for _ in range(_MANY_LINKS):
        at = body.find(b"<a ", at) + 1
        if not at:
            return False
    return True


def _first(signs: Sequence[Sign], text: bytes) -> Sign | None:
    return next((sign for sign in signs if sign.marker in text and sign.also in text), None)


def _seen(sign: Sign) -> Challenge:
    return Challenge(sign.kind, sign.vendor, f"the page says {sign.marker.decode()!r}")


def readable(body: bytes, enough: int) -> int:
    """How many bytes of text a (lower-cased) document shows, as far as it matters: `enough` if there are so many, or
    so many tags that it is a real page. In one pass; what is not closed ends the count."""
    count = at = 0
    for _ in range(_MANY_TAGS):
        tag = body.find(b"<", at)
        if tag < 0:
            return count + len(body[at:].strip(_SPACE))
        count += len(body[at:tag].strip(_SPACE))
        if unseen := _UNSEEN.match(body, tag):
            tag = body.find(b"</" + unseen[1], tag)
        elif body.startswith(b"<!--", tag):
            tag = body.find(b"--", tag + 4)
        at = body.find(b">", tag) + 1 if tag >= 0 else 0
        if count >= enough or not at:
            return count
    return enough

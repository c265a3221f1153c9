"""Recognises a challenge by status, headers and body. Pure, and quick: it checks every answer.

An ordinary page passes after a few comparisons, because it has links and text. So a shop whose contact form has a
captcha, or an article about captchas, is not a challenge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

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
    sign: str  # what it was recognised by

    def __str__(self) -> str:
        by = f" by {self.vendor}" if self.vendor else ""
        return f"{self.kind.replace('_', ' ')}{by}: {self.sign}"


def detect(response: Response, asked: str | None = None) -> Challenge | None:
    """The challenge that came instead of the page, if any. `asked` is the URL before redirects."""
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
    """A redirect to a login or captcha page."""
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
    """A refusal that is little more than a script, from a host that a vendor protects."""
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
    """A page of status 2xx with little text."""
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
    return len(body.split(b"<a ", _MANY_LINKS)) > _MANY_LINKS


def _first(signs: Sequence[Sign], text: bytes) -> Sign | None:
    return next((sign for sign in signs if sign.marker in text and sign.also in text), None)


def _seen(sign: Sign) -> Challenge:
    return Challenge(sign.kind, sign.vendor, f"the page says {sign.marker.decode()!r}")


def readable(body: bytes, enough: int) -> int:
    """How many bytes of text a (lower-cased) document shows; `enough` if there are as many, or so many tags that it is
    a real page. One pass; a tag that is not closed ends the count."""
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


# -- the signs of well-known walls, as data
#
# A marker is looked for in the lower-cased beginning of a body. Those of a vendor's own pages and the phrases are
# enough in a refusal (403, 429 …); in a 200 the page must also have little to read. A widget (a captcha that any form
# may carry) is only a sign where there is little to read, whatever the status.
#
# Left out on purpose is what vendors also put into ordinary pages they let through, such as Cloudflare's
# `/cdn-cgi/challenge-platform/`, DataDome's `tags.js`, Imperva's `_Incapsula_Resource` or PerimeterX's `_pxAppId`.


class Sign(Struct, frozen=True):
    kind: ChallengeKind
    vendor: str  # "": nobody in particular
    marker: bytes  # lower case
    also: bytes = b""  # must be there, too


class HeaderSign(Struct, frozen=True):
    kind: ChallengeKind
    vendor: str
    header: str
    value: str = ""  # how it begins, in lower case
    status: int = 0  # 0: any but 200


HEADERS = (
    HeaderSign("bot_wall", "cloudflare", "cf-mitigated", "challenge"),
    HeaderSign("bot_wall", "aws", "x-amzn-waf-action", "challenge"),
    HeaderSign("captcha", "aws", "x-amzn-waf-action", "captcha"),
    HeaderSign("bot_wall", "vercel", "x-vercel-mitigated"),
    HeaderSign("bot_wall", "datadome", "x-dd-b"),
    HeaderSign("bot_wall", "kasada", "x-kpsdk-ct"),
    HeaderSign("bot_wall", "sucuri", "x-sucuri-block"),
    HeaderSign("bot_wall", "akamai", "server", "akamaighost", 403),  # origins do not call themselves so
)

# How the names of cookies begin that a vendor sets. Ordinary pages set them, too: they only say who guards the host.
COOKIES = (
    ("datadome", "datadome"),
    ("_px", "perimeterx"),
    ("incap_ses_", "imperva"),
    ("visid_incap_", "imperva"),
    ("reese84", "imperva"),
    ("ak_bmsc", "akamai"),
    ("bm_sz", "akamai"),
    ("_abck", "akamai"),
    ("__cf_bm", "cloudflare"),
    ("aws-waf-token", "aws"),
    ("kp_uid", "kasada"),
    ("__ddg", "ddos-guard"),
    ("sucuri_cloudproxy", "sucuri"),
)

VENDORS = (
    Sign("bot_wall", "cloudflare", b"_cf_chl_opt"),
    Sign("bot_wall", "cloudflare", b"sorry, you have been blocked"),
    Sign("captcha", "datadome", b"captcha-delivery.com"),
    Sign("captcha", "perimeterx", b"px-captcha"),
    Sign("bot_wall", "imperva", b"incapsula incident id"),
    Sign("bot_wall", "imperva", b"incident_id=", b"_incapsula_resource"),
    Sign("bot_wall", "imperva", b"pardon our interruption"),
    Sign("bot_wall", "akamai", b"reference&#32;&#35;", b"access denied"),
    Sign("bot_wall", "akamai", b"errors.edgesuite.net", b"access denied"),
    Sign("bot_wall", "akamai", b"sec-if-cpt-container"),
    Sign("bot_wall", "kasada", b"/ips.js?"),
    Sign("bot_wall", "aws", b"gokuprops"),
    Sign("bot_wall", "f5", b"the requested url was rejected. please consult"),
    Sign("bot_wall", "sucuri", b"sucuri website firewall"),
    Sign("bot_wall", "ddos-guard", b"ddos-guard"),
    Sign("bot_wall", "vercel", b"vercel security checkpoint"),
    Sign("bot_wall", "radware", b"perfdrive.com"),
    Sign("bot_wall", "anubis", b"anubis_challenge"),
    Sign("bot_wall", "wordfence", b"generated by wordfence"),
    Sign("captcha", "amazon", b"/errors/validatecaptcha"),
    Sign("captcha", "yandex", b"smartcaptcha"),
)

PHRASES = (
    Sign("rate_wall", "", b"unusual traffic"),
    Sign("rate_wall", "", b"too many requests"),
    Sign("rate_wall", "", b"rate limit exceeded"),
    Sign("captcha", "", b"verify you are human"),
    Sign("captcha", "", b"verify that you are human"),
    Sign("captcha", "", b"verify you're human"),
    Sign("captcha", "", b"are you a robot?"),
    Sign("captcha", "", b"not a robot"),
    Sign("captcha", "", b"type the characters you see"),
    Sign("bot_wall", "", b"not a bot"),
    Sign("bot_wall", "", b"checking your browser before"),
    Sign("bot_wall", "", b"enable javascript and cookies to continue"),
    Sign("bot_wall", "", b"automated access"),
    Sign("login_wall", "", b"log in to continue"),
    Sign("login_wall", "", b"sign in to continue"),
    Sign("login_wall", "", b"you must be logged in"),
    Sign("login_wall", "", b"please log in to"),
    Sign("login_wall", "", b"sign in to view"),
)

WIDGETS = (
    Sign("captcha", "recaptcha", b"g-recaptcha"),
    Sign("captcha", "recaptcha", b"/recaptcha/api.js"),
    Sign("captcha", "hcaptcha", b"h-captcha"),
    Sign("captcha", "turnstile", b"cf-turnstile"),
    Sign("captcha", "turnstile", b"challenges.cloudflare.com/turnstile"),
    Sign("captcha", "geetest", b"geetest"),
    Sign("captcha", "arkose", b"arkoselabs.com"),
    Sign("captcha", "friendly-captcha", b"frc-captcha"),
)

PASSWORDS = (b'type="password"', b"type='password'", b"type=password")

# Where scripts put the page: React, Vue, Next, Nuxt, Gatsby, Svelte, Angular, Ember.
ROOTS = (
    b'id="root"',
    b"id=root",
    b'id="app"',
    b"id=app",
    b'id="__next"',
    b'id="__nuxt"',
    b'id="___gatsby"',
    b'id="svelte"',
    b"<app-root",
    b"<body data-sveltekit",
)

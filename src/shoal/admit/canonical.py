"""The canonical form of a URL, which identifies a page. It is never sent.

Made from the URL that is sent (`sending.py`):
  - an empty query is dropped
  - percent-encoding: hex digits upper-case, unreserved characters (RFC 3986) decoded, all others left as they are
  - query parameters sorted by name; those of the same name keep their order, and so does a query with several words
    without "=", whose order may matter
  - empty parameters, tracking parameters and session ids dropped
The case of the path is kept. The canonical form of a canonical form is itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from shoal.admit.sending import sent_url

_HEX = "0123456789ABCDEFabcdef"
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Not after a stray "%": decoding %%341 to %41 would create an escape.
_ESCAPE = re.compile("(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})")


def _normal_escape(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else "%" + digits.upper()


_NORMAL_ESCAPE = {high + low: _normal_escape(high + low) for high in _HEX for low in _HEX}


class Canonicaliser:
    """Makes the canonical form of a URL that is sent."""

    def __init__(self, extra_tracking: Iterable[str] = ()) -> None:
        extra = [name.lower() for name in extra_tracking]
        self._names = TRACKING_PARAMS | SESSION_PARAMS | {name for name in extra if not name.endswith("*")}
        self._prefixes = (
            *TRACKING_PREFIXES,
            *SESSION_PREFIXES,
            *(name[:-1] for name in extra if name.endswith("*") and name != "*"),
        )

    def __call__(self, url: str) -> str:
        if "?" not in url and "%" not in url and ";" not in url:
            return url  # as most links are
        head, hash_, fragment = url.partition("#")
        path, _, query = head.partition("?")
        path = _normal_escapes(path)
        if query:
            query = self._tidy_query(_normal_escapes(query))
        host = path.find("/", len("https://"))  # where the host ends: it may contain anything
        if ";" in path and (bare := path[:host] + SESSION_IN_PATH.sub("", path[host:])) != path:
            # What is left of "/.;jsessionid=1/" is a dot segment: parse again.
            path = sent_url(bare) or bare
            path = self(path)
        return f"{path}?{query}{hash_}{fragment}" if query else f"{path}{hash_}{fragment}"

    def _tidy_query(self, query: str) -> str:
        kept = [pair for pair in query.split("&") if pair and not self._is_noise(pair)]
        if len(kept) > 1 and sum("=" not in pair for pair in kept) < 2:
            kept.sort(key=_name)
        return "&".join(kept)

    def _is_noise(self, pair: str) -> bool:
        name = _name(pair).lower()
        return name in self._names or name.startswith(self._prefixes)


def _name(pair: str) -> str:
    return pair.partition("=")[0]


def _normal_escapes(text: str) -> str:
    if "%" not in text:
        return text
    return _ESCAPE.sub(lambda match: _NORMAL_ESCAPE[match[1]], text)


# -- query parameters that say nothing about the page: who sent the visitor, or which visit this is
#
# They are sent, but two URLs that differ in nothing else are the same page. The lists hold only names that never mean
# content: with a name such as `ref`, `sid` or `session_id`, pages of some site would be lost silently. Case does not
# matter. The setting `tracking_params` adds names; a final `*` there stands for any ending.


TRACKING_PREFIXES = (
    "utm_",  # Google Analytics campaigns, understood by nearly every other tool
    "mtm_",  # Matomo campaigns
    "matomo_",
    "piwik_",
)

TRACKING_PARAMS = frozenset(
    {
        # Google
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid"),
        *("_ga", "_gl", "_gac"),
        # Meta
        *("fbclid", "fb_action_ids", "fb_action_types", "fb_ref", "igshid", "igsh"),
        # other networks: Microsoft, Yandex, X, TikTok, LinkedIn, Pinterest, Reddit, Snapchat
        *(
            "msclkid",
            "yclid",
            "ysclid",
            "_openstat",
            "twclid",
            "ttclid",
            "li_fat_id",
            "epik",
            "rdt_cid",
            "sccid",
        ),
        # mail and marketing: Mailchimp, Marketo, HubSpot, Vero, Omeda, Klaviyo, MailerLite
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
        *("vero_id", "vero_conv", "oly_enc_id", "oly_anon_id", "_kx", "ml_subscriber", "ml_subscriber_hash"),
        # affiliate and deep-link services: Impact, Wicked Reports, Branch
        *("irclickid", "wickedid", "_branch_match_id", "_branch_referrer"),
    }
)

# Names that only ever carry the id of a session, because a language or a shop system writes them.
SESSION_PARAMS = frozenset({"phpsessid", "jsessionid", "oscsid", "zenid"})
SESSION_PREFIXES = ("aspsessionid",)

# Java and PHP also write the session's id into the path: /basket;jsessionid=1A2B?item=3
SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid)=[^/;]*", re.IGNORECASE)

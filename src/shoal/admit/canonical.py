"""One page, one URL: the canonical form under which a URL is stored, compared and fetched.

The WHATWG parser does what browsers do: it resolves against the base, lower-cases scheme and host, turns IDN into
punycode, drops default ports and dot segments, encodes what must be encoded, and strips tabs and line ends.
On top of that:
  - userinfo, fragment, an empty query and the host's trailing dot are dropped
  - percent-encoding: hex digits upper-case, unreserved characters (RFC 3986) decoded, all others left as they are
  - query parameters sorted by name, then value; empty ones dropped
  - tracking parameters and session ids dropped (see `tracking`)
The case of the path is kept. Canonicalising a canonical URL changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import methodcaller

from ada_url import join_url, normalize_url

from shoal.admit.tracking import (
    SESSION_IN_PATH,
    SESSION_PARAMS,
    SESSION_PREFIXES,
    SESSION_TOKEN,
    SESSION_TOKEN_PARAMS,
    TRACKING_PARAMS,
    TRACKING_PREFIXES,
)

_CRAWLABLE = ("http://", "https://")
_HEX = "0123456789ABCDEFabcdef"
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_BY_NAME_THEN_VALUE = methodcaller("partition", "=")

# A stray "%" before an escape stays out of it: decoding %%341 to %41 would make an escape that was none.
_ESCAPE = re.compile("(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})")


def _normal_escape(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else "%" + digits.upper()


_NORMAL_ESCAPE = {high + low: _normal_escape(high + low) for high in _HEX for low in _HEX}


class Canonicaliser:
    """Gives the canonical form of a URL, or None if it is not one that can be crawled."""

    def __init__(self, extra_tracking: Iterable[str] = ()) -> None:
        extra = [name.lower() for name in extra_tracking]
        self._names = TRACKING_PARAMS | SESSION_PARAMS | {name for name in extra if not name.endswith("*")}
        self._prefixes = (
            *TRACKING_PREFIXES,
            *SESSION_PREFIXES,
            *(name[:-1] for name in extra if name.endswith("*") and name != "*"),
        )

    def __call__(self, url: str, base: str | None = None) -> str | None:
        href = resolve(url, base)
        if href is None or not href.startswith(_CRAWLABLE):
            return None
        if (
            "?" not in href
            and "%" not in href
            and "#" not in href
            and "@" not in href
            and ";" not in href
            and "./" not in href
            and ".:" not in href
        ):
            return href  # most links end here: the parser has done everything
        return self._tidy(href)

    def _tidy(self, href: str) -> str | None:
        head, _, query = href.partition("#")[0].partition("?")
        scheme, _, rest = head.partition("://")
        authority, _, path = rest.partition("/")
        authority = authority.rpartition("@")[2].replace(".:", ":").removesuffix(".")
        if not authority or authority[0] == ":" or authority[-1] == "." or ".:" in authority:
            return None  # nothing but dots, or an empty label at the end
        path = _normal_escapes(path)
        if query:
            query = self._tidy_query(_normal_escapes(query))
        url = f"{scheme}://{authority}/{path}?{query}" if query else f"{scheme}://{authority}/{path}"
        if ";" in path and (bare := SESSION_IN_PATH.sub("", path)) != path:
            # What is left of "/.;jsessionid=1/" is a dot segment: parse again.
            return self(f"{scheme}://{authority}/{bare}?{query}")
        return url

    def _tidy_query(self, query: str) -> str:
        kept = [pair for pair in query.split("&") if pair and not self._is_noise(pair)]
        if len(kept) > 1:
            kept.sort(key=_BY_NAME_THEN_VALUE)
        return "&".join(kept)

    def _is_noise(self, pair: str) -> bool:
        name, _, value = pair.partition("=")
        name = name.lower()
        if name in self._names or name.startswith(self._prefixes):
            return True
        return name in SESSION_TOKEN_PARAMS and SESSION_TOKEN.fullmatch(value) is not None


def resolve(url: str, base: str | None) -> str | None:
    """The absolute URL a browser would make of this, of any scheme; None if it would make none."""
    try:
        return join_url(base, url) if base else normalize_url(url)
    except ValueError:
        if _is_unicode(url) and (base is None or _is_unicode(base)):
            return None
    return resolve(_without_lone_surrogates(url), base and _without_lone_surrogates(base))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_lone_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _normal_escapes(text: str) -> str:
    if "%" not in text:
        return text
    return _ESCAPE.sub(lambda match: _NORMAL_ESCAPE[match[1]], text)

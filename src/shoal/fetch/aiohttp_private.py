"""Every private attribute of aiohttp that Shoal uses, under names of our own. No other module touches one.

They may change with any minor release: pyproject.toml bounds the version, and a test checks each of `PRIVATE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, Morsel

from aiohttp import CookieJar

from shoal.admit.identity import is_public_suffix

PRIVATE = {"CookieJar": ("_build_morsel", "_expirations", "_is_domain_match")}


class SiteJar(CookieJar):
    """A jar that refuses cookies for other domains and for public suffixes such as .com or .co.uk."""

    def __init__(self) -> None:
        super().__init__(unsafe=True, quote_cookie=False)  # unsafe: also from IP addresses

    def _build_morsel(self, cookie: Morsel[str]) -> Morsel[str]:
        """A cookie is sent back exactly as it was received, with its quotes, as browsers do."""
        morsel: Morsel[str] = Morsel()
        try:
            morsel.set(cookie.key, cookie.value, cookie.coded_value)
        except CookieError:  # an odd name, which aiohttp can write
            return super()._build_morsel(cookie)
        return morsel

    @staticmethod
    def _is_domain_match(domain: str, hostname: str) -> bool:
        if domain == hostname:
            return True
        return CookieJar._is_domain_match(domain, hostname) and not is_public_suffix(domain)


def deadlines_of(jar: CookieJar) -> Mapping[tuple[str, str, str], float]:
    """When the cookies of a jar expire (epoch seconds), by domain, path without its last slash, and name."""
    return jar._expirations

"""The URL that is sent: what was published, as a browser would ask for it.

The WHATWG parser resolves against the base, lower-cases scheme and host, turns IDN into punycode, drops default ports
and dot segments, encodes what must be encoded, and strips tabs and line ends. Three things are left out that are no
part of a request: fragment, userinfo, and the dot after a host's name. The query is not touched: its order, its
spelling and its parameters are the server's business.
"""

from __future__ import annotations

import re

from ada_url import join_url, normalize_url

_CRAWLABLE = ("http://", "https://")
_ROUTES = ("!", "/")  # how a fragment begins that names a page: #!/cart, #/cart
_RAW_BYTE = re.compile("[\udc80-\udcff]")


def sent_url(url: str, base: str | None = None, *, routes: bool = False) -> str | None:
    """The URL to ask for; None if it is not one that can be crawled. `routes`: a fragment that names a page is kept."""
    href = resolve(url, base)
    if href is None or not href.startswith(_CRAWLABLE):
        return None
    if "#" not in href and "@" not in href and "./" not in href and ".:" not in href:
        return href  # most links end here: the parser has done everything
    return _tidy(href, routes)


def _tidy(href: str, routes: bool) -> str | None:
    href, hash_, fragment = href.partition("#")
    scheme, _, rest = href.partition("://")
    authority, _, path = rest.partition("/")
    authority = authority.rpartition("@")[2].replace(".:", ":").removesuffix(".")
    if not authority or authority[0] == ":" or authority[-1] == "." or ".:" in authority:
        return None  # nothing but dots, or an empty label at the end
    route = hash_ + fragment if routes and fragment.startswith(_ROUTES) else ""
    return f"{scheme}://{authority}/{path}{route}"


def without_route(url: str) -> str:
    """What goes over plain HTTP."""
    return url.partition("#")[0]


def redirect_url(location: str, base: str, *, routes: bool = False) -> str | None:
    """The URL that a Location header names. Bytes in it that are no UTF-8 are sent back as they came."""
    if not location.isascii():
        location = _RAW_BYTE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", location)
    url = sent_url(location, base, routes=routes)
    if url is not None and routes and "#" in base and "#" not in location:
        return url + base[base.index("#") :]  # a browser, too, keeps it across redirects
    return url


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

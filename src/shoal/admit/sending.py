"""The URL that is sent: as published, and as a browser would request it. And URLs as people type them.

The WHATWG parser resolves against the base, lower-cases scheme and host, turns IDN into punycode, drops default ports
and dot segments, encodes what must be encoded, and strips tabs and line ends. Fragment, userinfo and the dot after a
host's name are removed. The query is not changed.
"""

from __future__ import annotations

import re

from ada_url import join_url, normalize_url

from shoal.errors import UrlError

_CRAWLABLE = ("http://", "https://")
_ROUTES = ("!", "/")  # how a fragment begins that names a page: #!/cart, #/cart
_RAW_BYTE = re.compile("[\udc80-\udcff]")


def sent_url(url: str, base: str | None = None, *, routes: bool = False) -> str | None:
    """The URL to request; None if it cannot be crawled. `routes`: a fragment that names a page is kept."""
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
    """The URL for plain HTTP."""
    return url.partition("#")[0]


def redirect_url(location: str, base: str, *, routes: bool = False) -> str | None:
    """The URL in a Location header. Its bytes that are not UTF-8 are sent back unchanged."""
    if not location.isascii():
        location = _RAW_BYTE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", location)
    url = sent_url(location, base, routes=routes)
    if url is not None and routes and "#" in base and "#" not in location:
        return url + base[base.index("#") :]  # browsers keep it across redirects, too
    return url


def resolve(url: str, base: str | None) -> str | None:
    """The absolute URL that a browser would make of this, of any scheme; None if it is not a URL."""
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


# -- URLs as people type them


_HOST_END = re.compile(r"[:/?#]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# Mistyped http:// or https://: http//host, http:/host, htp://host, https;//host, http:\\host.
_NEARLY = re.compile(r"([A-Za-z]{2,7})(?:([:;.,]?[/\\]{2,}|[:;][/\\])|:(?!\d*(?:[/?#]|$)))(?=[^/\\])")
_LIKE_HTTPS = frozenset(
    {"https", "htps", "htpps", "htttps", "hhttps", "httsp", "hhtps", "ttps", "httpss", "hxxps"}
)
_LIKE_HTTP = frozenset(
    {"http", "htp", "htpp", "htttp", "hhttp", "hhtp", "thtp", "httpp", "ttp", "htt", "hxxp"}
)
# Schemes that a browser's address bar recognises without slashes. curl sees a user or a host in these.
_OTHER = re.compile(
    r"(mailto|tel|sms|javascript|data|ftps?|sftp|file|about|blob|view-source|wss?|urn|magnet):", re.I
)

# Quotes and brackets around a URL that was copied out of a text, a mail or a CSV file.
_WRAPPED = {'"': '"', "'": "'", "`": "`", "<": ">", "“": "”", "‘": "’", "«": "»", "(": ")", "[": "]"}
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]+\]")
# A host's name and whatever follows it. Its last label has letters only: a number is no name. Or this machine or an
# address of four numbers.
_HOST_FIRST = re.compile(
    r"(?:(?:[\w-]+\.)+(?:[^\W\d_]{2,63}|xn--[\w-]+)|localhost(?=[:/])|(?:\d{1,3}\.){3}\d{1,3})(?::\d+)?(?:[/?#]\S*)?"
)


def has_scheme(word: str) -> bool:
    return _SCHEME.match(word) is not None


def unwrapped(word: str) -> str:
    """A URL without blanks, quotes and brackets around it. No URL begins with them, but for an IPv6 address."""
    word = word.strip()
    for _ in range(3):
        if len(word) < 3 or word[-1] != _WRAPPED.get(word[0]) or _IPV6.fullmatch(word):
            break
        word = word[1:-1].strip()
    return word


def listed_url(line: str) -> str:
    """The URL in a line of a list, where a person may have written `example.com` or "https://example.com/". What is no
    URL stays as it is: admission refuses and counts it."""
    url = unwrapped(line)
    if not _HOST_FIRST.fullmatch(url):
        return url
    try:
        return typed_url(url)
    except UrlError:
        return url


def meant_by(word: str) -> str | None:
    """The URL meant by a word whose http:// or https:// is mistyped; None if it is not."""
    begin = _NEARLY.match(word)
    if begin is None or begin[0].lower() in ("http://", "https://"):
        return None
    name = begin[1].lower()
    if begin[2] is None and name not in ("http", "https"):
        return None  # host:port and host:word are other things
    for scheme, like in (("https", _LIKE_HTTPS), ("http", _LIKE_HTTP)):
        if name in like:
            return f"{scheme}://{word[begin.end() :]}".replace("\\", "/")
    return None


def _is_local(word: str) -> bool:
    """Whether it is this machine or an IP address, which rarely have a certificate."""
    host = _HOST_END.split(word, maxsplit=1)[0].rstrip(".")
    last = host.rpartition(".")[2].lower()
    return word.startswith("[") or last == "localhost" or last.isdecimal()


def typed_url(word: str) -> str:
    """The URL of a word that may lack its scheme: https, or http for this machine and IP addresses."""
    word = unwrapped(word)
    scheme = _SCHEME.match(word)
    shown = word.rpartition("@")[2]  # before it may be a password
    if meant := meant_by(word):
        if "@" in meant:
            meant = f"{meant.partition('://')[0]}://{shown}"
        raise UrlError(f"{shown} is not a URL; did you mean {meant}?")
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise UrlError(f"{shown}: only http and https can be crawled")
    if scheme is None and (other := _OTHER.match(word)):
        raise UrlError(
            f"{other[0]} cannot be crawled, only http and https; if it is a host's name, write http://{other[0]}…"
        )
    usual = "http" if _is_local(word) else "https"
    url = sent_url(word if scheme else f"{usual}://{word}", routes=True)
    if url is None or " " in word:
        raise UrlError(f"{shown!r} is not a URL: write it as https://example.com/path")
    return url

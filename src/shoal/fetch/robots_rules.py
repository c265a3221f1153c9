"""The text of robots.txt, by RFC 9309 and Google's rules: what of it is for us, and which URLs it forbids. Pure.

    text ──read, one pass──▶ Directives for one agent ──▶ Matcher ──▶ may this URL be fetched?

Every step is bounded, whatever the text: only the rules for one agent are kept, and no more than the caps below. The
rest is ignored, like everything beyond the first 500 KiB of the file. Patterns do not become regular expressions:
wildcards are matched left to right, in linear time.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from msgspec import Struct

MAX_RULES = 5_000  # for one agent
MAX_RULES_TEXT = 100_000  # characters of all of them, percent-encoded
# Of patterns with a wildcard, which must be tried one by one: at worst some 10 ms for a URL.
MAX_WILDCARD_TEXT = 20_000
MAX_PATTERN = 2_000  # characters; a URL is no longer by default
MAX_SITEMAPS = 100
MAX_SITEMAP_TEXT = 20_000

# Google's list, with its misspellings.
_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP = "agent", "+", "-", "delay", "sitemap"
_FIELDS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), _AGENT),
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), _DISALLOW),
    **dict.fromkeys(("sitemap", "site-map"), _SITEMAP),
    "allow": _ALLOW,
    "crawl-delay": _DELAY,
}
_SHORTEST = len("allow:/")
_PRODUCT = re.compile(r"[A-Za-z0-9_-]+")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# An escape, or characters that must be escaped. "*" and "$" have a meaning in patterns, so where they are meant as
# themselves they are written %2A and %24, in patterns and in URLs.
_TO_ENCODE = re.compile(r"(%[0-9A-Fa-f]{2})|(?:%(?![0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=%])+")
_COMPILED = 100  # sets of rules kept ready; at most a megabyte each


class Directives(Struct, frozen=True):
    """What robots.txt says to one agent. `rules` is canonical: "+/pattern" or "-/pattern" a line."""

    rules: str = ""
    delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    cut: bool = False  # there were more rules than are kept


def read(text: str, agent: str) -> Directives:
    """The directives for the agent of that product token: those of the groups that name it, or else of "*"."""
    agent = agent.lower()
    own, general = _Group(), _Group()
    sitemaps: list[str] = []
    current: list[_Group] = []  # the groups that the lines are for
    naming = False  # user-agent lines in a row name one group, whatever stands between them
    for line in text.replace("\r", "\n").split("\n"):
        if len(line) < _SHORTEST:
            continue  # half a million empty lines are skipped in a moment
        field, value = _field(line)
        if field == _AGENT:
            if not naming:
                current, naming = [], True
            name = _name(value)
            if name == agent and own not in current:
                current.append(own)
                own.named = True
            elif name == "*" and general not in current:
                current.append(general)
        elif field == _SITEMAP:
            if len(sitemaps) < MAX_SITEMAPS and (url := _value(value)):
                sitemaps.append(url)
        elif field == _DELAY:
            # Not one of the RFC's own records, so it does not end the naming (2.2.4).
            for group in current:
                group.set_delay(value)
        elif field is not None:
            naming = False
            for group in current:
                group.add(field, _value(value))
    return (own if own.named else general).directives(_short(sitemaps))


def product_token(user_agent: str) -> str:
    """The name that robots.txt groups are matched by: "Shoal/0.1 (+…)" goes by "Shoal"."""
    found = _OWN.match(user_agent)
    return found[1] if found else "*"


_OWN = re.compile(r"(?:Mozilla/[\d.]+ \(compatible; )?([A-Za-z0-9_-]+)")


def _field(line: str) -> tuple[str | None, str]:
    name, colon, value = line.partition(":")
    if colon:
        return _FIELDS.get(name.strip().lower()), value
    words = line.partition("#")[0].split(None, 2)
    return (_FIELDS.get(words[0].lower()), words[1]) if len(words) == 2 else (None, "")


def _value(text: str) -> str:
    return text.partition("#")[0].strip()


def _name(text: str) -> str:
    """The agent that a user-agent line names: "Shoal/0.1" and "Shoal (all of them)" are Shoal."""
    text = _value(text)
    if text == "*" or (text[:1] == "*" and text[1].isspace()):
        return "*"
    found = _PRODUCT.match(text)
    return found[0].lower() if found else ""


def _short(sitemaps: list[str]) -> tuple[str, ...]:
    kept, room = [], MAX_SITEMAP_TEXT
    for url in sitemaps:
        room -= len(url)
        if room >= 0:
            kept.append(url)
    return tuple(kept)


class _Group:
    """What the groups of one agent say, while the text is read."""

    def __init__(self) -> None:
        self.named = False
        self._delay: float | None = None
        self._rules: dict[tuple[str, str], None] = {}  # as written, in order
        self._room = MAX_RULES_TEXT
        self._cut = False

    def add(self, sign: str, value: str) -> None:
        if (sign, value) in self._rules:
            return
        if len(self._rules) < MAX_RULES and len(value) <= self._room:
            self._rules[sign, value] = None
            self._room -= len(value)
        else:
            self._cut = True

    def set_delay(self, value: str) -> None:
        """The longest, if there are several."""
        try:
            seconds = float(_value(value))
        except ValueError:
            return
        if math.isfinite(seconds) and seconds >= 0:
            self._delay = max(seconds, self._delay or 0.0)

    def directives(self, sitemaps: tuple[str, ...]) -> Directives:
        room, wildcard_room, cut = MAX_RULES_TEXT, MAX_WILDCARD_TEXT, self._cut
        rules: dict[str, None] = {}
        for sign, value in self._rules:
            pattern = _pattern(value)
            if pattern[:1] not in ("/", "*"):
                continue  # it matches no path, or is empty
            if len(pattern) > MAX_PATTERN:
                if sign == _ALLOW:
                    continue
                pattern = pattern[:MAX_PATTERN]  # a Disallow that is cut forbids more, not less
            if len(pattern) > room or ("*" in pattern and len(pattern) > wildcard_room):
                cut = True
                continue
            room -= len(pattern) + 2
            wildcard_room -= len(pattern) if "*" in pattern else 0
            rules[sign + pattern] = None
        return Directives("\n".join(rules), self._delay, sitemaps, cut)


# -- matching


# Length, whether it allows, the longest piece, and all pieces between the wildcards.
_Wildcard = tuple[int, bool, str, list[str]]


class Matcher:
    """Compiled rules. The longest pattern that matches decides; of two equally long ones, the one that allows."""

    def __init__(self, rules: str) -> None:
        self._whole: dict[str, bool] = {}  # "/path$"
        self._prefixes: dict[str, bool] = {}
        self._wildcards: list[_Wildcard] = []
        for rule in rules.split("\n") if rules else ():
            allows, pattern = rule[0] == _ALLOW, rule[1:]
            if "*" in pattern:
                pieces = pattern.split("*")
                longest = max(pieces, key=len).removesuffix("$")
                self._wildcards.append((len(pattern), allows, longest, pieces))
            else:
                table = self._whole if pattern[-1] == "$" else self._prefixes
                table[pattern] = allows or table.get(pattern, False)
        self._wildcards.sort(key=lambda rule: rule[:2], reverse=True)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def allows(self, url: str) -> bool:
        path = path_of(url)
        if path == "/robots.txt":
            return True
        whole = f"{path}$"
        best = max(self._plain(path), (len(whole), self._whole[whole]) if whole in self._whole else _NONE)
        for length, allows, longest, pieces in self._wildcards:
            if (length, allows) <= best:
                break
            if longest in path and _matches(pieces, path):
                return allows
        return best[1]

    def _plain(self, path: str) -> tuple[int, bool]:
        for length in self._lengths:
            if length <= len(path) and (allows := self._prefixes.get(path[:length])) is not None:
                return length, allows
        return _NONE


_NONE = (-1, True)  # no rule matches: allowed


@lru_cache(_COMPILED)
def matcher(rules: str) -> Matcher:
    """The matcher for these rules. Only matchers in use are cached."""
    return Matcher(rules)


def path_of(url: str) -> str:
    """What rules are matched against: path and query, in canonical spelling."""
    start = url.find("/", url.find("://") + 3)
    path = url[start:].partition("#")[0] if start >= 0 else "/"
    return _encode(path)


def _matches(pieces: list[str], path: str) -> bool:
    """Whether the pieces of a pattern with wildcards are found one after the other, each as early as possible: if the
    rest does not fit then, it does not fit later either."""
    if not path.startswith(pieces[0]):
        return False
    at, last = len(pieces[0]), pieces[-1]
    for piece in pieces[1:-1]:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if last.endswith("$"):
        return len(path) - len(last) + 1 >= at and path.endswith(last[:-1])
    return path.find(last, at) >= 0


def _pattern(text: str) -> str:
    """The pattern in the spelling of `path_of`: "*" stays, and "$" at the end; elsewhere it is a plain character."""
    anchor = "$" if text.endswith("$") else ""
    body = text[:-1] if anchor else text
    return "*".join(map(_encode, body.split("*"))) + anchor


def _encode(text: str) -> str:
    return _TO_ENCODE.sub(_encoded, text)


def _encoded(found: re.Match[str]) -> str:
    if escape := found[1]:
        character = chr(int(escape[1:], 16))
        return character if character in _UNRESERVED else escape.upper()
    return "%" + found[0].encode("utf-8", "surrogatepass").hex("%").upper()

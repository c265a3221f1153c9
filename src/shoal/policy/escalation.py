"""Learns which pages of a host need a browser, by the pattern of their URLs. Pure.

    plain fetches of a pattern        becomes                  a task of the pattern
    ──────────────────────────        ─────────────────────    ─────────────────────────────────────────
    brought pages                     not even remembered      is fetched plainly
    of no use (shell, wall), at times remembered               is fetched plainly, then by a browser
    of no use, nearly always          it goes to the browser   is opened in a browser, but for samples
    … and then pages again            given back, forgotten    is fetched plainly

Only plain fetches teach anything, so some tasks are still fetched plainly, more of them while little is known. A
pattern is stored from its first failure on, so a host without scripts and walls costs nothing. That first failure
says nothing about how often it happens, so one more observation is needed. Counts lose half their weight in an hour,
and are capped.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Gave = Literal["page", "shell", "wall"]

PATTERNS = 64  # remembered of a host

_ENOUGH = 4.5  # observations: five that have hardly faded
_GOES = 0.9  # share of useless answers with which a pattern goes to the browser, and stays there
_CAUTION = 0.6  # standard deviations: five of five are enough, 18 of 20 are not
_BACK = 3  # pages in a row, and plain fetching is enough again
_SAMPLES = 1 / 20  # of the tasks of a pattern that goes to the browser
_QUIET = 60.0  # after so many seconds without an observation …
_SAMPLES_IN_QUIET = 1 / 4  # … more tasks are sampled
_HALF_LIFE = 3600.0
_MOST = 40.0  # observations that the past weighs at most
_LIGHT = 0.05  # useless answers that count as none
_FADED = 1.0  # observations that keep a pattern in the browser

_FOLDERS = 6
_NAMES = 8  # of query parameters
_LONG = 20  # characters; longer words are names of single things
_SUFFIX = re.compile(r"\.[A-Za-z]{2,5}$")


class Look(Struct, frozen=True):
    """What a plain fetch of a page gave."""

    pattern: str
    gave: Gave


class Pattern(Struct, frozen=True, omit_defaults=True):
    """What plain fetches of such pages gave, in counts that fade."""

    pages: float = 0.0
    shells: float = 0.0
    walls: float = 0.0
    at: float = 0.0  # when the counts were last updated
    row: int = 0  # pages in a row, up to now
    browser: bool = False  # it goes to the browser

    @property
    def looks(self) -> float:
        return self.pages + self.shells + self.walls

    @property
    def useless(self) -> float:
        return self.shells + self.walls


Patterns = Mapping[str, Pattern]
NO_PATTERNS: Patterns = {}


# -- learning


def observe(patterns: Patterns, look: Look, at: float) -> Patterns:
    """The patterns after a plain fetch that ended at `at`. They come in any order."""
    old = patterns.get(look.pattern)
    if old is None and look.gave == "page":
        return patterns
    new = _observe(old or Pattern(), look.gave, at)
    others = {name: pattern for name, pattern in patterns.items() if name != look.pattern}
    if (old is not None and old.browser and new.row >= _BACK) or new.useless < _LIGHT:
        return others
    if len(others) >= PATTERNS:
        del others[min(others, key=lambda name: others[name].looks * _kept(others[name].at, at))]
    return {**others, look.pattern: new}


def _observe(old: Pattern, gave: Gave, at: float) -> Pattern:
    kept = _kept(old.at, at)
    kept = min(kept, (_MOST - 1) / old.looks) if old.looks else kept
    new = Pattern(
        pages=old.pages * kept + (gave == "page"),
        shells=old.shells * kept + (gave == "shell"),
        walls=old.walls * kept + (gave == "wall"),
        at=max(old.at, at),
        row=old.row + 1 if gave == "page" else 0,
    )
    browser = new.useless >= _GOES * new.looks if old.browser else _is_hopeless(new)
    return replace(new, browser=browser)


def _is_hopeless(pattern: Pattern) -> bool:
    return pattern.looks >= _ENOUGH and _at_least(pattern.useless, pattern.looks) >= _GOES


def _at_least(hits: float, looks: float) -> float:
    """A cautious estimate of the share: the lower end of Wilson's interval."""
    share, z2 = hits / looks, _CAUTION**2
    spread = _CAUTION * math.sqrt(share * (1 - share) / looks + z2 / (4 * looks**2))
    return (share + z2 / (2 * looks) - spread) / (1 + z2 / looks)


# -- deciding


def needs_browser(patterns: Patterns, name: str, now: float) -> bool:
    pattern = patterns.get(name)
    return pattern is not None and pattern.browser and pattern.looks * _kept(pattern.at, now) >= _FADED


def is_sampled(patterns: Patterns, name: str, now: float, rng: random.Random) -> bool:
    """Whether a task of a browser pattern is fetched plainly, to check whether the browser is still needed."""
    pattern = patterns[name]
    share = max(_SAMPLES, 1 / max(1.0, pattern.looks))
    if now - pattern.at >= _QUIET:
        share = max(share, _SAMPLES_IN_QUIET)
    return rng.random() < share


def sentence(name: str, pattern: Pattern) -> str:
    """ "/app/* goes to the browser lane: 12 of 12 plain answers were empty shells"."""
    return f"{name} goes to the browser lane: {reason(pattern)}"


def reason(pattern: Pattern) -> str:
    counts = {"empty shells": pattern.shells, "challenges": pattern.walls}
    kinds = " or ".join(kind for kind, count in counts.items() if count)
    useless, pages = round(pattern.useless), round(pattern.pages)
    return f"{useless} of {useless + pages} plain answers were {kinds}"


# -- patterns


def pattern_of(url: str) -> str:
    """The pattern that URLs of the same kind of page share: /shop/item-17?size=3 is /shop/*?size. The last part of a
    path with several parts is taken for a name, and so are parts with digits and long parts."""
    path, _, query = url.partition("#")[0].partition("://")[2].partition("?")
    names = sorted({_generalised(pair.partition("=")[0]) for pair in query.split("&") if pair})
    shown = _path_pattern(path.partition("/")[2])
    return f"{shown}?{'&'.join(names[:_NAMES])}" if names else shown


def _path_pattern(path: str) -> str:
    *folders, last = [segment for segment in path.split("/") if segment] or [""]
    words = [_generalised(folder) for folder in folders[:_FOLDERS]]
    if len(folders) > _FOLDERS:
        words.append("**")
    words.append(_named(last) if folders or _is_name(last) else last)
    return f"/{'/'.join(words)}{'/' if last and path.endswith('/') else ''}"


def _generalised(word: str) -> str:
    return "*" if _is_name(word) else word


def _named(last: str) -> str:
    suffix = _SUFFIX.search(last)
    return f"*{suffix[0]}" if suffix else "*"


def _is_name(word: str) -> bool:
    """Whether the word names one thing among many: it has digits, is long, or has several words."""
    stem = _SUFFIX.sub("", word)
    return any(map(str.isdigit, stem)) or len(stem) > _LONG or stem.count("-") + stem.count("_") > 1


def _kept(then: float, now: float) -> float:
    return 0.5 ** (max(0.0, now - then) / _HALF_LIFE) if then else 1.0

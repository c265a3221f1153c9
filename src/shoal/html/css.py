"""CSS selectors, in a time that does not depend on how a page is nested.

lexbor tries every way in which the ancestors of an element can match: "main div div a" in a page of a thousand nested
<div> takes minutes, and so does "li ~ li" or "td:nth-child(2)" with a hundred thousand siblings. Selector and page show
beforehand what may take long. Then lexbor only finds the elements for each part of the selector, and one walk over the
page combines the parts. On ordinary pages lexbor is quicker, and does everything.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import comb
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

N = TypeVar("N")
N_co = TypeVar("N_co", covariant=True)

_BUDGET = 0.05  # seconds that lexbor may take, in the worst case
_STEP = 3e-9  # seconds for an element and one way to match it
_USUAL = (16, 32, 64)  # elements nested, or side by side
_ONE_LOOK = ((0, 0),)

_STRING = r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'"""
_COMBINATOR = re.compile(r"\s*+([>+~,])\s*+|\s++()")
_SIMPLE = re.compile(rf"\\.|\[(?:[^\]\"'\\]|\\.|{_STRING})*+\]|[^\s>+~,()\[\]\"'\\|]++", re.DOTALL)
_INSIDE = re.compile(rf"\\.|{_STRING}|[^()\"'\\]++", re.DOTALL)
_NTH = re.compile(r":nth-(last-)?(child|of-type)\(\s*([^()]*?)\s*\)", re.IGNORECASE)
_LEXBOR_ONLY = re.compile(r":(?:is|where)\(", re.IGNORECASE)  # lexbor reads what follows in its own way
_FORMULA = re.compile(r"([+-]?\d*)n(?:\s*([+-])\s*(\d+))?|([+-]?\d+)", re.IGNORECASE)


class Nth(Struct, frozen=True):
    step: int
    offset: int
    of_type: bool
    from_end: bool

    def takes(self, place: int) -> bool:
        """The first element is at place 1."""
        distance = place - self.offset
        return distance == 0 if not self.step else distance % self.step == 0 and distance // self.step >= 0


class Part(Struct, frozen=True):
    """The part between two combinators: "div.card", "td:nth-child(2)"."""

    combinator: str  # before it; "," where a selector begins
    selector: str  # without :nth-…
    nth: tuple[Nth, ...]


class Plan(Struct, frozen=True):
    parts: tuple[Part, ...]
    # For every part: how many descendant combinators follow it, and how often siblings are searched. lexbor goes from
    # the last part to the first, and reaches a part in as many ways as the later ones allow.
    searches: tuple[tuple[int, int], ...]


class _Engine(threading.local):
    """lexbor's engine for selectors, one for each thread. selectolax would make one for every page, which takes a third
    of the time of parsing it."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.selector: Any = LexborCSSSelector()  # type: ignore[no-untyped-call]


_engine = _Engine()


def _find(tree: LexborHTMLParser, selector: str, *, first: bool = False) -> list[LexborNode]:
    """The same as `tree.css(selector)`, or its first match alone."""
    root = tree.root
    if root is None:
        return []
    engine = _engine.selector
    try:
        found: list[LexborNode] = (engine.find_first if first else engine.find)(selector, root)
    except BaseException:
        _engine.renew()  # what cannot be read may have left something behind
        raise
    return found


class Selection:
    """The elements of a document that selectors match."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._tree = tree
        self._tags = (tree.raw_html or b"").count(b"<")
        self._most: dict[str, int] = {}  # elements inside (>) or beside (+) one another

    def all(self, selector: str) -> list[LexborNode]:
        """All matches in document order; for a list, once for every selector in it that matches."""
        plan = plan_for(selector)
        if plan is None or self._is_quick(plan):
            return _find(self._tree, selector)
        return list(select(_Nodes(self._tree), plan))

    def first(self, selector: str) -> LexborNode | None:
        plan = plan_for(selector)
        if plan is None or self._is_quick(plan):
            return next(iter(_find(self._tree, selector, first=True)), None)
        return next(select(_Nodes(self._tree), plan), None)

    def _is_quick(self, plan: Plan) -> bool:
        if plan.searches == _ONE_LOOK:
            return True
        if self._fits(plan, self._tags, self._tags):  # a small page: no need to look how deep and wide it is
            return True
        looks_beside = any(siblings for _, siblings in plan.searches)
        return self._fits(plan, self._at_most(">"), self._at_most("+") if looks_beside else 1)

    def _fits(self, plan: Plan, depth: int, width: int) -> bool:
        ways: int = sum(comb(depth, nested) * width**siblings for nested, siblings in plan.searches)
        return self._tags * ways * _STEP <= _BUDGET

    def _at_most(self, combinator: str) -> int:
        """How many elements are nested (>) or side by side (+), at most. Quick on any page."""
        if combinator not in self._most:
            more = (count for count in _USUAL if not self._has_more(combinator, count))
            self._most[combinator] = next(more, self._tags)
        return self._most[combinator]

    def _has_more(self, combinator: str, count: int) -> bool:
        row = f" {combinator} ".join("*" * (count + 1))
        return self._tags > count and bool(_find(self._tree, row, first=True))


# -- what a selector consists of


@lru_cache(maxsize=512)
def plan_for(selector: str) -> Plan | None:
    """The parts of a selector; None: it is left to lexbor, valid or not."""
    parts = _parts(selector.strip())
    if parts is None:
        return None
    return Plan(tuple(parts), tuple(_searches(parts)))


def _searches(parts: list[Part]) -> Iterator[tuple[int, int]]:
    nested = siblings = 0
    for part in reversed(parts):
        yield nested, siblings + bool(part.nth)
        match part.combinator:
            case " ":
                nested += 1
            case "~":
                siblings += 1
            case ",":
                nested = siblings = 0


def _parts(selector: str) -> list[Part] | None:
    parts, combinator, at = list[Part](), ",", 0
    while True:
        end = _end_of_part(selector, at)
        part = _part(combinator, selector[at:end]) if end > 0 else None
        if part is None:
            return None
        parts.append(part)
        if end == len(selector):
            return parts
        found = _COMBINATOR.match(selector, end)
        if found is None:
            return None
        combinator, at = found[1] or " ", found.end()


def _end_of_part(selector: str, at: int) -> int:
    """Where a part ends. Blanks, commas and signs in brackets do not end it; -1: a bracket is not closed."""
    depth = 0
    while at < len(selector):
        if selector[at] == "(":
            depth, at = depth + 1, at + 1
        elif selector[at] == ")" and depth:
            depth, at = depth - 1, at + 1
        elif found := (_INSIDE if depth else _SIMPLE).match(selector, at):
            at = found.end()
        else:
            break
    return -1 if depth else at


def _part(combinator: str, text: str) -> Part | None:
    nth = list[Nth]()
    for last, kind, formula in _NTH.findall(text):
        steps = _steps(formula.lower())
        if steps is None:
            return None
        nth.append(Nth(*steps, kind.lower() == "of-type", bool(last)))
    bare = _NTH.sub("", text)
    if not text or ":nth-" in bare.lower() or (nth and "(" in bare) or _LEXBOR_ONLY.search(bare):
        return None
    return Part(combinator, bare or "*", tuple(nth))


def _steps(formula: str) -> tuple[int, int] | None:
    """2n+1 is (2, 1)."""
    formula = {"odd": "2n+1", "even": "2n"}.get(formula, formula)
    found = _FORMULA.fullmatch(formula)
    if found is None:
        return None
    step, sign, offset, alone = found.groups()
    if alone is not None:
        return 0, int(alone)
    return int(f"{step}1" if step in ("", "+", "-") else step), int(f"{sign}{offset}") if offset else 0


# -- combining the parts


class Source(Protocol[N_co]):
    """The elements of a document, in its order."""

    def elements(self) -> Iterator[tuple[N_co, int, int, str | None]]:
        """Elements in order, with ids of themselves and their parents, and their names."""
        ...

    def matching(self, selector: str) -> Iterable[int]:
        """The elements that match one part of a selector, regardless of their context."""
        ...


class _Nodes(Source[LexborNode]):
    def __init__(self, tree: LexborHTMLParser) -> None:
        self._tree = tree

    def elements(self) -> Iterator[tuple[LexborNode, int, int, str | None]]:
        if self._tree.root is None:
            return
        for node in self._tree.root.traverse():
            # Comments are not elements.
            if node.tag and node.tag[0] not in "-!" and (parent := node.parent) is not None:
                yield node, node.mem_id, parent.mem_id, node.tag

    def matching(self, selector: str) -> Iterable[int]:
        return [node.mem_id for node in _find(self._tree, selector)]


def select(source: Source[N], plan: Plan) -> Iterator[N]:
    """The matches. Each element has one bit for every part: set if the selector up to that part matches there."""
    meant = _meant(source, plan.parts)
    begin, end = _bits(plan, ","), (_bits(plan, ",") >> 1) | 1 << (len(plan.parts) - 1)
    inside, child, after, next_to = (_bits(plan, combinator) for combinator in " >~+")
    of: dict[int, tuple[int, int]] = {}  # element -> what ends at it, and at it or above
    siblings: dict[int, tuple[int, int]] = {}  # parent -> what ends at its last child yet, and at any child
    for node, element, parent, _ in source.elements():
        here, above = of.get(parent, (0, 0))
        last, earlier = siblings.get(parent, (0, 0))
        if bits := meant.get(element, 0):
            bits &= (
                begin
                | (above << 1 & inside)
                | (here << 1 & child)
                | (earlier << 1 & after)
                | (last << 1 & next_to)
            )
        for _ in range((bits & end).bit_count()):
            yield node
        of[element] = bits, above | bits
        siblings[parent] = bits, earlier | bits


def _bits(plan: Plan, combinator: str) -> int:
    return sum(1 << n for n, part in enumerate(plan.parts) if part.combinator == combinator)


def _meant(source: Source[N], parts: Iterable[Part]) -> dict[int, int]:
    """For elements, the parts that they match, regardless of their context."""
    meant: dict[int, int] = {}
    places = _Places(source) if any(part.nth for part in parts) else None
    for n, part in enumerate(parts):
        for element in source.matching(part.selector):
            if places is None or all(map(places.of(element).__contains__, part.nth)):
                meant[element] = meant.get(element, 0) | 1 << n
    return meant


class _Places:
    """The positions of elements among their siblings."""

    def __init__(self, source: Source[N]) -> None:
        self._children: Counter[int] = Counter()
        self._of_type: Counter[tuple[int, str | None]] = Counter()
        self._places: dict[int, tuple[int, int, int, str | None]] = {}
        for _, element, parent, tag in source.elements():
            self._children[parent] += 1
            self._of_type[parent, tag] += 1
            self._places[element] = (parent, self._children[parent], self._of_type[parent, tag], tag)

    def of(self, element: int) -> _Place:
        parent, child, of_type, tag = self._places[element]
        return _Place(child, of_type, self._children[parent], self._of_type[parent, tag])


class _Place(Struct, frozen=True):
    child: int
    of_type: int
    children: int  # of its parent
    same_type: int

    def __contains__(self, nth: Nth) -> bool:
        place, count = (self.of_type, self.same_type) if nth.of_type else (self.child, self.children)
        return nth.takes(count - place + 1 if nth.from_end else place)

"""CSS selectors for XML: matches one part of them, such as "item" or "link[rel=self]".

As in the CSS standard, a name matches elements of any namespace, "media|thumbnail" those of one, and case matters.
Parts are combined as for HTML (`css.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from shoal.html.css import Plan, plan_for

if TYPE_CHECKING:
    from lxml.etree import _Element

Test = Callable[["_Element"], bool]

_NAME = r"(?:[\w-]|[^\x00-\x7f]|\\.)++"
_BAR = re.compile(r"(?<=[\w*])\|(?=[\w*])")
_TYPE = re.compile(rf"(?:(?P<prefix>{_NAME}|\*)?\|)?(?P<local>{_NAME}|\*)")
_MORE = re.compile(
    rf"""[#](?P<id>{_NAME})
    | \.(?P<class>{_NAME})
    | \[\s*+(?:(?P<space>{_NAME}|\*)?\|(?!=))?(?P<attribute>{_NAME})\s*+
        (?:(?P<operator>[~|^$*]?=)\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s\]"']++))\s*+(?P<i>[iI])?\s*+)?\]
    | :(?P<pseudo>first-child|last-child|only-child|empty|root)(?![\w-])
    | :not\(\s*+(?P<not>[^()]++)\)
    | :(?:lexbor-)?contains\(\s*+(?:"(?P<text>[^"]*+)"|'(?P<text2>[^']*+)')\s*+\)
    """,
    re.VERBOSE,
)


def planned(selector: str) -> Plan:
    """The parts of a selector. The bar of a namespace is escaped, so that it does not split a part."""
    plan = plan_for(_BAR.sub(r"\\|", selector))
    if plan is None or not all(_is_known(part.selector) for part in plan.parts):
        raise ValueError(
            f"not a CSS selector, or not one for XML: {selector!r} (a prefix is written media|thumbnail)"
        )
    return plan


def matcher(part: str, namespaces: Mapping[str, str]) -> tuple[Test, str | None]:
    """A function that says whether an element matches the part, and the element name in the part, if there is one."""
    tests, at, local = list[Test](), 0, "*"
    part = part.replace(r"\|", "|").replace(r"\:", "|")
    if name := _TYPE.match(part):
        local, at = _plain(name["local"]), name.end()
        tests = _named(name["prefix"], local, namespaces)
    while at < len(part):
        more = _MORE.match(part, at)
        if more is None:
            raise ValueError(part)
        tests.append(_test(more, namespaces))
        at = more.end()
    test = tests[0] if len(tests) == 1 else lambda element: all(test(element) for test in tests)
    return test, None if local == "*" else local


@lru_cache(maxsize=512)
def _is_known(part: str) -> bool:
    try:
        matcher(part, {})
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _named(prefix: str | None, local: str, namespaces: Mapping[str, str]) -> list[Test]:
    tests = list[Test]()
    if local != "*":
        tests.append(lambda element: _local(str(element.tag)) == local)
    if prefix not in (None, "*"):
        prefix = _plain(prefix or "")
        start, undeclared = f"{{{namespaces.get(prefix)}}}", f"{prefix}:"
        tests.append(lambda element: str(element.tag).startswith((start, undeclared)))
    return tests


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2]


def _test(more: re.Match[str], namespaces: Mapping[str, str]) -> Test:
    if more["id"]:
        wanted = _plain(more["id"])
        return lambda element: element.get("id") == wanted
    if more["class"]:
        name = _plain(more["class"])
        return lambda element: name in (element.get("class") or "").split()
    if more["attribute"]:
        return _attribute(more, namespaces)
    if more["not"]:
        inner, _ = matcher(more["not"].strip(), namespaces)
        return lambda element: not inner(element)
    if more["pseudo"]:
        return _PSEUDO[more["pseudo"]]
    text = more["text"] or more["text2"] or ""
    return lambda element: text in "".join(map(str, element.itertext()))


def _attribute(more: re.Match[str], namespaces: Mapping[str, str]) -> Test:
    name, space = _plain(more["attribute"]), more["space"]
    if space and space != "*":
        name = f"{{{_XML if space == 'xml' else namespaces.get(_plain(space))}}}{name}"
    operator = more["operator"]
    if operator is None:
        return lambda element: element.get(name) is not None
    wanted = more["double"] or more["single"] or more["bare"] or ""
    fold = str.lower if more["i"] else str
    wanted = fold(wanted)
    holds = _OPERATORS[operator]

    def test(element: _Element) -> bool:
        value = element.get(name)
        return value is not None and holds(fold(str(value)), wanted)

    return test


_XML = "http://www.w3.org/XML/1998/namespace"
_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda value, wanted: value == wanted,
    "~=": lambda value, wanted: wanted in value.split(),
    "|=": lambda value, wanted: value == wanted or value.startswith(f"{wanted}-"),
    "^=": lambda value, wanted: bool(wanted) and value.startswith(wanted),
    "$=": lambda value, wanted: bool(wanted) and value.endswith(wanted),
    "*=": lambda value, wanted: bool(wanted) and wanted in value,
}


def _is_first(element: _Element) -> bool:
    return next(element.itersiblings("*", preceding=True), None) is None


def _is_last(element: _Element) -> bool:
    return next(element.itersiblings("*"), None) is None


_PSEUDO: dict[str, Test] = {
    "first-child": lambda element: _is_first(element),
    "last-child": lambda element: _is_last(element),
    "only-child": lambda element: _is_first(element) and _is_last(element),
    "empty": lambda element: not len(element) and not element.text,
    "root": lambda element: element.getparent() is None,
}

"""Records in one shape, whatever a page uses to describe itself: products, articles, events and so on. Pure.

What several syntaxes say about the same thing is put together. The more trusted one counts, the others fill its gaps:
JSON-LD, microdata, RDFa, OpenGraph, Twitter cards, `meta`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from shoal.html.records.currencies import local_currency
from shoal.html.records.fields import FIELDS, KINDS, empty
from shoal.html.records.kinds import KIND_OF, build
from shoal.html.records.merging import merged
from shoal.html.records.meta_records import record_from_meta
from shoal.html.records.nodes import Nodes
from shoal.html.structured import Structured
from shoal.limits import RECORDS

__all__ = ["FIELDS", "KINDS", "records"]


def records(
    tree: LexborHTMLParser,
    base: str,
    *,
    headers: Mapping[str, str] | None = None,
    kinds: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """The records of a page, of some kinds or all. `base` is what its links are relative to."""
    return from_structured(Structured(tree, base, headers), kinds)


def from_structured(found: Structured, kinds: Collection[str] | None = None) -> list[dict[str, Any]]:
    wanted = {name: kind for name, kind in KIND_OF.items() if kinds is None or kind in kinds}
    home = _home(found)
    sources: list[list[dict[str, Any]]] = []
    for syntax, items in (("jsonld", found.jsonld), ("microdata", found.microdata), ("rdfa", found.rdfa)):
        if items:
            nodes = Nodes(items, found.base, home)
            built = [build(nodes, kind, node, syntax) for kind, node in _some(nodes, wanted)]
            sources.append([record for record in built if record is not None])
    result = merged(sources)
    for kind in KINDS:
        if kinds is None or kind in kinds:
            record_from_meta(found, home, kind, result)
    return [_whole(record) for record in result]


def _whole(record: dict[str, Any]) -> dict[str, Any]:
    """With all fields of its kind, in their order."""
    return {
        name: empty(name) if (value := record.get(name)) is None else value for name in FIELDS[record["type"]]
    }


def _some(nodes: Nodes, wanted: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for one in nodes.find(wanted):
        found.append(one)
        if len(found) >= RECORDS:
            break
    return found


def _home(found: Structured) -> str | None:
    """The currency where the page is from."""
    try:
        host = urlsplit(found.base).hostname or ""
    except ValueError:
        host = ""
    return local_currency(found.language, host)

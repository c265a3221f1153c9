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
from shoal.html.records.merging import main_records, merged
from shoal.html.records.meta_records import add_meta, meta_currency
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
    mains = main_records(result, found.own_urls, lambda: found.headings)
    for kind in KINDS:
        several = kind not in mains and any(record["type"] == kind for record in result)
        if (kinds is None or kind in kinds) and not several:
            main = add_meta(found, home, kind, mains.get(kind))
            if main is not None:
                mains[kind] = main
    first = list(mains.values())
    rest = [record for record in result if record is not mains.get(record["type"])]
    return [_whole(record) for record in (*first, *rest)]


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
    """The currency of the page: as it names it, or where it is from."""
    if (code := meta_currency(found)) is not None:
        return code
    try:
        host = urlsplit(found.base).hostname or ""
    except ValueError:
        host = ""
    return local_currency(found.language, host)

"""What several syntaxes say about the same thing, put together. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

_KEYS = ("gtin", "sku", "url", "name", "headline", "title")
_WITH_PRICE = ("price", "currency", "list_price", "low_price", "high_price", "valid_until")


def merged(sources: list[list[Record]]) -> list[Record]:
    """Records of the most trusted source, their gaps filled by the others; then what only the others have."""
    result: list[Record] = []
    for records in sources:
        added: list[Record] = []
        index = _Index(result)
        for record in records:
            known = index.same(record) or _only_one(result, records, record)
            if known is None:
                added.append(record)
            else:
                fill(known, record)
        result += added
    return result


def main_records(
    records: list[Record], own_urls: Callable[[], list[str]], headings: Callable[[], list[str]]
) -> dict[str, Record]:
    """What the page is about, not what it recommends: of every kind the only one, or the one with its address, or else
    with its heading for a name, or else the one without an address. Without such a one, the kind is missing."""
    by_kind: dict[str, list[Record]] = {}
    for record in records:
        by_kind.setdefault(record["type"], []).append(record)
    mains = {kind: some[0] for kind, some in by_kind.items() if len(some) == 1}
    if len(mains) == len(by_kind):
        return mains
    own, texts = {_address(url) for url in own_urls()}, [_folded(text) for text in headings()]
    for kind, some in by_kind.items():
        ranks = [_rank(record, own, texts) for record in some]
        best = min(ranks)
        if best < _ANY and ranks.count(best) == 1:
            mains[kind] = some[ranks.index(best)]
    return mains


_ANY = 4


def _rank(record: Record, own: set[str], texts: list[str]) -> int:
    url = record.get("url")
    if url and _address(url) in own:
        return 0
    name = _folded(record.get("name") or record.get("headline") or record.get("title") or "")
    if name in texts:
        return 1
    if name and any(name in text for text in texts):
        return 2
    return _ANY if url else 3


def _address(url: str) -> str:
    return _folded(url.partition("#")[0]).rstrip("/")


class _Index:
    """Finds the record that is about the same thing."""

    def __init__(self, records: list[Record]) -> None:
        self._by_key: dict[tuple[str, str, str], Record] = {}
        for record in records:
            for key in _KEYS:
                if value := record.get(key):
                    self._by_key.setdefault((record["type"], key, _folded(value)), record)

    def same(self, record: Record) -> Record | None:
        for key in _KEYS:
            if value := record.get(key):
                found = self._by_key.get((record["type"], key, _folded(value)))
                if found is not None:
                    return found
        return None


def _folded(value: object) -> str:
    return " ".join(str(value).split()).casefold().rstrip("/")


def _only_one(known: list[Record], others: list[Record], record: Record) -> Record | None:
    """Where each has one of a kind, they are the same, if nothing speaks against it."""
    of_kind = [one for one in known if one["type"] == record["type"]]
    if len(of_kind) != 1 or sum(one["type"] == record["type"] for one in others) != 1:
        return None
    differ = any(
        record.get(key) and of_kind[0].get(key) and _folded(record[key]) != _folded(of_kind[0][key])
        for key in ("gtin", "sku")
    )
    return None if differ or not _alike(record, of_kind[0]) else of_kind[0]


def _alike(one: Record, other: Record) -> bool:
    """Whether their names may be those of the same thing: one is missing, or part of the other. Without this, the brand
    of a related product would fill the gap of the product itself."""
    for key in ("name", "headline", "title"):
        if one.get(key) and other.get(key):
            short, long = sorted((_folded(one[key]), _folded(other[key])), key=len)
            return short in long
    return True


def fill(record: Record, other: Record) -> None:
    """Fields that are missing, from a less trusted record. A price comes with its currency."""
    used = False
    if not record.get("price") and other.get("price"):
        for name in _WITH_PRICE:
            record[name] = other.get(name)
        used = True
    for name, value in other.items():
        if name not in ("type", "source", *_WITH_PRICE[2:]) and value and not record.get(name):
            record[name] = value
            used = True
    if used:
        record["source"] = list(dict.fromkeys([*record["source"], *other["source"]]))

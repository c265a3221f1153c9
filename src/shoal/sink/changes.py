"""What has changed on a page since its last visit: its items then, by the page's record, against its items now.

An item is the one from before if it is of the same kind (table) and has the same key. Without a key, the only item of a
kind is the one from before; of several, those with the same content are.

What is no change: the order of fields, 5 against 5.0, floats that differ beyond their 15th digit, a field that is null
against one that is missing, the fields that `row_meta` adds, and those of the setting `changes_ignore`.

What is kept of an item is compressed with the one before it as dictionary: the items of a page are much alike.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shoal.limits import KEPT_IDENT, KEPT_ITEM, KEPT_PAGE
from shoal.model import CHANGES, Row
from shoal.model.page_record import KeptRow
from shoal.sink.items import without_meta
from shoal.sink.row_meta import iso_time

APPEARED, CHANGED, VANISHED = "appeared", "changed", "vanished"

_VALUE = "value"  # the field of an item that is no object
_REST = "\0"  # the table of what stands for all items that are not kept one by one; no item has that table
_FIXED = 16  # bytes of a kept row besides its texts and data
_EXACT = 2**53  # floats up to this are whole numbers, if they look so
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError, zlib.error)
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_encode = msgspec.json.Encoder().encode

Fields = Mapping[str, Any]
Name = tuple[str, str]  # table and key


class Comparison(Struct, frozen=True):
    changed: bool
    rows: tuple[Row, ...]  # new or changed: these are written
    changes: tuple[Row, ...]  # rows of the table `changes`
    kept: tuple[KeptRow, ...]  # for the next visit
    touched: tuple[Row, ...] = ()  # unchanged, for sinks that know when a row was last checked
    untold: int = 0  # changes without old values, or of items that were not kept one by one


class _Item(Struct):
    """An item, as it is compared."""

    table: str
    ident: str  # as it is kept
    digest: bytes
    text: bytes  # sorted JSON; b"": it is not known any more
    fields: Fields | None
    place: int = 0
    known: bool = False  # it was kept one by one before

    @property
    def name(self) -> Name:
        return self.table, self.ident


def kept(rows: Sequence[Row], *, ignore: Collection[str] = ()) -> tuple[KeptRow, ...]:
    """What is remembered of a page's items."""
    return _keep(_once(_items(rows, ignore)))


def compare(
    before: Sequence[KeptRow] | None,
    rows: Sequence[Row],
    *,
    url: str,
    job: str,
    at: float,
    ignore: Collection[str] = (),
    visit: int | None = None,
) -> Comparison:
    """The items of a page against those of its last visit. `before`: as its record says; None: this is its first
    visit. `at`: when the page was asked for. `visit`: which visit of the page it is. If it is made again after a
    crash, the changes have the same ids; without it they have not."""
    told = _Told(url, job, at, visit)
    items = _once(_items(rows, ignore))
    if before is None:
        for item in items:
            told.appeared(item)
        return Comparison(True, tuple(rows), tuple(told.rows), _keep(items))
    old, rest = _read(before, ignore)
    pairs, left = _matched(old, items)
    new = [item for item in items if item.place not in pairs]
    rest_gone = rest is not None and not new
    if (
        rest is not None and _sum(new) == rest.digest
    ):  # those that were not kept one by one are all as they were
        new = []
    fresh: set[int] = set()
    for item in items:
        was = pairs.get(item.place)
        item.known = was is not None
        if was is not None and told.changed(was, item):
            fresh.add(item.place)
    for item in new:
        fresh.add(item.place)
        if rest is None:
            told.appeared(item)
        else:
            told.untold += 1  # nobody knows which of them are new
    for was in left:
        told.vanished(was)
    return Comparison(
        bool(fresh or left or rest_gone),
        # The key is for rows that are written once a job. These are newer versions.
        tuple(replace(rows[place], key=None, place=place) for place in sorted(fresh)),
        tuple(told.rows),
        _keep(items),
        _touched(rows, items, fresh, {item.table for item in (*new, *left)}),
        told.untold + rest_gone,
    )


def fields_before(before: Sequence[KeptRow]) -> list[tuple[str, Fields]]:
    """The items of a page's last visit, of those that were kept whole: table and fields."""
    return [(item.table, item.fields) for item in _read(before, ())[0] if item.fields is not None]


def vanished(
    before: Sequence[KeptRow], *, url: str, job: str, at: float, visit: int | None = None
) -> tuple[Row, ...]:
    """The changes if a page is gone, and all its items with it."""
    told = _Told(url, job, at, visit)
    for item in _read(before, ())[0]:
        told.vanished(item)
    return tuple(told.rows)


def touches(before: Iterable[KeptRow], at: float, by: Sequence[str] = ()) -> tuple[Row, ...]:
    """Rows for a visit that found the page unchanged, by its record: the time when its rows were checked moves. `by`:
    the fields of the key of its handler."""
    found: dict[Name, Row] = {}
    for one in before:
        if one.table == _REST or (one.ident and not by) or len(one.ident) > KEPT_IDENT:
            continue
        names = tuple(by) if one.ident else ()
        data = _key_fields(one.ident, names) if names else b"{}"
        if data is not None:
            found.setdefault(
                (one.table, one.ident), Row(data + b"\n", None, one.table, names, one.ident, at, touch=True)
            )
    return tuple(found.values())


def _key_fields(ident: str, by: Sequence[str]) -> bytes | None:
    """The fields of a key as an object (see `items.py`, which makes the text)."""
    if len(by) == 1:
        return _encode({by[0]: ident})
    try:
        return _encode(dict(zip(by, msgspec.json.decode(ident, type=list[Any]), strict=True)))
    except _UNREADABLE:
        return None


def _touched(
    rows: Sequence[Row], items: Sequence[_Item], fresh: Collection[int], shifted: Collection[str]
) -> tuple[Row, ...]:
    """The unchanged rows. Of those without a key a database knows only the place on the page: if one of them comes or
    goes, all of them are written. If not, one row stands for all."""
    found: list[Row] = []
    whole: set[str] = set()
    changed = {rows[place].table for place in fresh} | set(shifted)
    for item in items:
        row = rows[item.place]
        if item.place in fresh or (not row.by and row.table not in changed and row.table in whole):
            continue
        if not row.by:
            whole.add(row.table)
        found.append(replace(row, key=None, place=item.place, touch=True))
    return tuple(found)


# -- items, as they are compared and kept


def _items(rows: Sequence[Row], ignore: Collection[str]) -> list[_Item]:
    return [_item(row, place, ignore) for place, row in enumerate(rows)]


def _item(row: Row, place: int, ignore: Collection[str]) -> _Item:
    data = without_meta(row)
    try:
        fields = _fields(msgspec.json.decode(data), ignore)
        text = _text(fields)
    except _UNREADABLE:  # nested too deeply
        return _Item(row.table, _short(row.ident), _digest(data), b"", None, place)
    return _Item(row.table, _short(row.ident), _digest(text), text, fields, place)


def _fields(value: Any, ignore: Collection[str]) -> dict[str, Any]:
    """The fields that count."""
    fields = value if isinstance(value, dict) else {_VALUE: value}
    return {
        name: one
        for name, one in fields.items()
        if one is not None and not (isinstance(one, float) and one != one) and name not in ignore
    }


def _text(fields: Fields) -> bytes:
    """The same bytes for items that count as equal."""
    return _encode_sorted({name: _plain(value) for name, value in fields.items()})


def _plain(value: Any) -> Any:
    """A value such that two that count as equal are equal."""
    if isinstance(value, float):
        rounded = float(f"{value:.15g}")
        if not isfinite(rounded):  # rounded up, beyond the largest float
            return value
        return int(rounded) if abs(rounded) <= _EXACT and rounded.is_integer() else rounded
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _once(items: Iterable[_Item]) -> list[_Item]:
    """Of items with the same key, the first: the others are not written."""
    found: dict[Name | int, _Item] = {}
    for item in items:
        found.setdefault(item.name if item.ident else item.place, item)
    return list(found.values())


def _short(ident: str) -> str:
    return ident if len(ident) <= KEPT_IDENT else f"{ident[:KEPT_IDENT]}…{_digest(ident.encode()).hex()}"


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _sum(items: Iterable[_Item]) -> bytes:
    """The digest of several items, in whatever order."""
    total = sum(
        int.from_bytes(_digest(_encode([item.table, item.ident]) + item.digest), "big") for item in items
    )
    return (total % 2**64).to_bytes(8, "big")


def _keep(items: Sequence[_Item]) -> tuple[KeptRow, ...]:
    """Within KEPT_PAGE: table, key and digest of as many items as possible, first of those that were kept before, so
    that they stay comparable; then the data of as many as possible; and one digest for the rest."""
    room, chosen = KEPT_PAGE, set()
    for item in sorted(items, key=lambda one: (not one.known, one.place)):
        room -= len(item.table.encode()) + len(item.ident.encode()) + _FIXED
        if room < 0:
            break
        chosen.add(item.place)
    room = max(room, 0)
    found: list[KeptRow] = []
    last = b""
    for item in items:
        if item.place not in chosen:
            continue
        data = _packed(item.text, last) if 0 < len(item.text) <= KEPT_ITEM and room else b""
        if len(data) > room:
            data = b""
        if data:
            last = item.text
            room -= len(data)
        found.append(KeptRow(item.table, item.ident, item.digest, data))
    if rest := [item for item in items if item.place not in chosen]:
        found.append(KeptRow(_REST, str(len(rest)), _sum(rest)))
    return tuple(found)


def _read(before: Iterable[KeptRow], ignore: Collection[str]) -> tuple[list[_Item], KeptRow | None]:
    """The items of a record, and what stands for those that were not kept one by one."""
    found: list[_Item] = []
    rest: KeptRow | None = None
    last = b""
    for place, one in enumerate(before):
        if one.table == _REST:
            rest = one
            continue
        item = _Item(one.table, one.ident, one.digest, b"", None, place)
        text = _unpacked(one.data, last) if one.data else None
        if text is not None and _digest(text) == one.digest:
            last = text
            _decode(item, text, ignore)
        found.append(item)
    return found, rest


def _decode(item: _Item, text: bytes, ignore: Collection[str]) -> None:
    try:
        item.fields = _fields(msgspec.json.decode(text), ignore)
    except _UNREADABLE:
        return
    item.text = _text(item.fields)  # `ignore` may have grown since
    item.digest = _digest(item.text)


def _packed(text: bytes, last: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=last)
    return packer.compress(text) + packer.flush()


def _unpacked(data: bytes, last: bytes) -> bytes | None:
    try:
        unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=last)
        text = unpacker.decompress(data, KEPT_ITEM)
    except zlib.error:
        return None
    return text if unpacker.eof else None


# -- which item is which


def _matched(old: Sequence[_Item], new: Sequence[_Item]) -> tuple[dict[int, _Item], list[_Item]]:
    """For the place of each item that was there before, the item that it was; and those that are not there now."""
    keyed = {item.name: item for item in old if item.ident}
    loose: dict[str, list[_Item]] = {}
    for item in old:
        if not item.ident:
            loose.setdefault(item.table, []).append(item)
    now = Counter(item.table for item in new if not item.ident)
    pairs: dict[int, _Item] = {}
    by_content: dict[tuple[str, bytes], list[_Item]] = {}
    for table, items in loose.items():
        if len(items) > 1 or now[table] != 1:
            for item in reversed(items):
                by_content.setdefault((table, item.digest), []).append(item)
    for item in new:
        was: _Item | None = None
        if item.ident:
            was = keyed.get(item.name)
        elif same := by_content.get((item.table, item.digest)):
            was = same.pop()
        elif now[item.table] == 1 and len(loose.get(item.table, ())) == 1:
            was = loose[item.table][0]
        if was is not None:
            pairs[item.place] = was
    used = {was.place for was in pairs.values()}
    return pairs, [item for item in old if item.place not in used]


# -- changes as rows


class _Told:
    """The changes of a page, as rows."""

    def __init__(self, url: str, job: str, at: float, visit: int | None) -> None:
        self.rows: list[Row] = []
        self.untold = 0
        self._twins: Counter[tuple[str, str, bytes]] = Counter()
        self._url, self._job, self._at = url, job, at
        self._visit = f"at {at!r}" if visit is None else str(visit)

    def appeared(self, item: _Item) -> None:
        self._add(APPEARED, item, new=item.fields)

    def vanished(self, item: _Item) -> None:
        self.untold += item.fields is None
        self._add(VANISHED, item, old=item.fields)

    def changed(self, was: _Item, item: _Item) -> bool:
        """Tells each field that has changed. Returns whether there is one."""
        if was.digest == item.digest:
            return False
        if was.fields is None or item.fields is None:
            self.untold += 1
            self._add(CHANGED, item, new=item.fields)
            return True
        names = [*item.fields, *(name for name in was.fields if name not in item.fields)]
        for name in names:
            old, new = was.fields.get(name), item.fields.get(name)
            if not _equal(old, new):
                self._add(CHANGED, item, name, old, new)
        return True

    def _add(
        self, change: str, item: _Item, field: str | None = None, old: object = None, new: object = None
    ) -> None:
        ident = self._id(change, item, field)
        row = {
            "at": iso_time(self._at),
            "change": change,
            "table": item.table,
            "key": item.ident or None,
            "field": field,
            "old": old,
            "new": new,
            "page": self._url,
            "id": ident,
        }
        self.rows.append(Row(_encode(row) + b"\n", None, CHANGES, ("id",), ident, self._at))

    def _id(self, change: str, item: _Item, field: str | None) -> str:
        """The same if the visit is made again. Items without a key go by their content, and may be equal."""
        which, twin = item.ident, 0
        if not item.ident and change != CHANGED:  # if it has changed, it is the only one of its kind
            which = item.digest.hex()
            twin = self._twins[change, item.table, item.digest]
            self._twins[change, item.table, item.digest] += 1
        values = (self._job, self._url, self._visit, change, item.table, which, twin, field)
        return _digest(_encode(values)).hex()


def _equal(one: object, other: object) -> bool:
    return _encode_sorted(_plain(one)) == _encode_sorted(_plain(other))

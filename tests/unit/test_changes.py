"""What has changed on a page between two visits."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.limits import KEPT_PAGE
from shoal.model import CHANGES, Row
from shoal.model.page_record import KeptRow
from shoal.sink.changes import Comparison, compare, kept, touches, vanished

ABOUT: dict[str, Any] = {"url": "http://shop.test/1", "job": "shop", "at": 1_800_000_000.0, "visit": 2}


def row(item: object, key: str = "id", table: str = "product", *, meta: bytes = b"") -> Row:
    data = msgspec.json.encode(item)
    if meta:
        data = data[:-1] + b"," + meta + b"}"
    ident = ""
    if key and isinstance(item, dict) and key in item:
        ident = item[key] if isinstance(item[key], str) else msgspec.json.encode(item[key]).decode()
    by = (key,) if ident else ()
    return Row(data + b"\n", 7 if ident else None, table, by, ident, 5.0, len(meta) + 1 if meta else 0)


def compared(old: list[Row], new: list[Row], **more: Any) -> Comparison:
    return compare(kept(old), new, **{**ABOUT, **more})


def told(found: Comparison) -> list[tuple[Any, ...]]:
    """change, key, field, old, new"""
    rows = [msgspec.json.decode(one.data) for one in found.changes]
    return [tuple(one[name] for name in ("change", "key", "field", "old", "new")) for one in rows]


def test_one_row_for_each_field() -> None:
    old = row({"id": "a", "price": 10, "title": "Cup", "tags": ["x"], "old": 1})
    new = row({"title": "Cup", "id": "a", "price": 12.5, "tags": ["x", "y"], "new": {"b": 1}})
    found = compared([old], [new])
    assert found.changed
    assert told(found) == [
        ("changed", "a", "price", 10, 12.5),
        ("changed", "a", "tags", ["x"], ["x", "y"]),
        ("changed", "a", "new", None, {"b": 1}),
        ("changed", "a", "old", 1, None),
    ]
    assert found.rows == (replace(new, key=None, place=0),)
    assert all(one.table == CHANGES and one.key is None and one.by == ("id",) for one in found.changes)
    assert len({one.ident for one in found.changes}) == 4
    first = msgspec.json.decode(found.changes[0].data)
    assert first["at"] == "2027-01-15T08:00:00.000Z"
    assert (first["table"], first["page"]) == ("product", "http://shop.test/1")


def test_appeared_and_vanished() -> None:
    a, b, c = (row({"id": name, "n": 1}) for name in "abc")
    found = compared([a, b], [c, a])
    assert told(found) == [
        ("appeared", "c", None, None, {"id": "c", "n": 1}),
        ("vanished", "b", None, {"id": "b", "n": 1}, None),
    ]
    assert found.rows == (replace(c, key=None, place=0),)
    assert [one.ident for one in found.touched] == ["a"]
    assert found.touched[0].touch
    gone = vanished(found.kept, **ABOUT)
    assert [msgspec.json.decode(one.data)["key"] for one in gone] == ["c", "a"]


def test_no_change() -> None:
    """Order of fields, numbers, null, row_meta, ignored fields."""
    for old, new in (
        ({"id": "a", "n": 1, "m": {"x": 1, "y": 2}}, {"m": {"y": 2, "x": 1}, "n": 1, "id": "a"}),
        ({"id": "a", "n": 5, "m": [0.0]}, {"id": "a", "n": 5.0, "m": [-0.0]}),
        ({"id": "a", "n": 0.1 + 0.2}, {"id": "a", "n": 0.3}),
        ({"id": "a", "n": None}, {"id": "a"}),
        ({"id": "a"}, {"id": "a", "n": None}),
        ("text", "text"),
    ):
        found = compared([row(old)], [row(new)])
        assert not found.changed, (old, new)
        assert (found.rows, found.changes) == ((), ())
        assert len(found.touched) == 1
    meta = [row({"id": "a"}, meta=b'"_fetched_at":"%d"' % n) for n in (1, 2)]
    assert not compared(meta[:1], meta[1:]).changed
    seen = [row({"id": "a", "scraped_at": n, "price": 1}) for n in (1, 2)]
    assert compared(seen[:1], seen[1:]).changed
    # Also if the setting came after the first visit.
    assert not compared(seen[:1], seen[1:], ignore=("scraped_at",)).changed
    before = kept(seen[:1], ignore=("scraped_at",))
    assert not compare(before, seen[1:], **ABOUT, ignore=("scraped_at",)).changed


def test_these_are_changes() -> None:
    for old, new in ((1, True), (0, False), ("1", 1), (0, None), ([], None), ("", None), ([1, 2], [2, 1])):
        found = compared([row({"id": "a", "n": old})], [row({"id": "a", "n": new})])
        assert [type(value) for value in told(found)[0][3:]] == [type(old), type(new)], (old, new)


def test_without_a_key() -> None:
    one, two = row({"n": 1}, ""), row({"n": 2}, "")
    assert told(compared([one], [two])) == [("changed", None, "n", 1, 2)]
    three = row({"n": 3}, "")
    found = compared([one, two, two], [two, three, two])
    assert told(found) == [("appeared", None, None, None, {"n": 3}), ("vanished", None, None, {"n": 1}, None)]
    assert found.rows == (replace(three, place=1),)
    # A database knows rows without a key by their places, so it needs all of them.
    assert [(touched.place, touched.data) for touched in found.touched] == [(0, two.data), (2, two.data)]
    unchanged = compared([one, two], [one, two])
    assert [touched.place for touched in unchanged.touched] == [0]
    # Another kind of item on the same page is another matter.
    page = row({"title": "x"}, "", "page")
    assert told(compared([one, two, page], [one, two, row({"title": "y"}, "", "page")])) == [
        ("changed", None, "title", "x", "y")
    ]


def test_equal_items_without_a_key_are_counted() -> None:
    same = row({"n": 1}, "")
    found = compared([same], [same, same, same])
    assert [change[0] for change in told(found)] == ["appeared", "appeared"]
    assert len({one.ident for one in found.changes}) == 2
    assert [change[0] for change in told(compared([same, same], [same]))] == ["vanished"]


def test_the_first_visit() -> None:
    """Its rows keep their keys: another page may have written them."""
    rows = [row({"id": "a"}), row({"id": "b"})]
    found = compare(None, rows, **ABOUT)
    assert (found.changed, found.rows, found.touched) == (True, tuple(rows), ())
    assert [change[:2] for change in told(found)] == [("appeared", "a"), ("appeared", "b")]
    assert found.kept == kept(rows)
    # A page that had no items is another matter.
    assert compare((), rows, **ABOUT).rows[0].key is None
    assert not compare((), [], **ABOUT).changed


def test_of_equal_keys_the_first_counts() -> None:
    a, b = row({"id": "a", "n": 1}), row({"id": "a", "n": 2})
    assert not compared([a], [a, b]).changed
    found = compared([a], [b, a])
    assert told(found) == [("changed", "a", "n", 1, 2)]
    assert len(found.rows) == 1


def test_ids_are_those_of_the_visit() -> None:
    a, b, c = (row({"id": "a", "n": n}) for n in range(3))
    first = compared([a], [b])
    again = compared([a], [c], at=1_900_000_000.0)  # after a crash: it replaces the first
    assert [one.ident for one in first.changes] == [one.ident for one in again.changes]
    later = compared([a], [b], visit=3)
    assert first.changes[0].ident != later.changes[0].ident
    assert (
        compared([a], [b], visit=None).changes[0].ident
        != compared([a], [b], visit=None, at=1.0).changes[0].ident
    )


def test_an_item_too_long_to_be_kept() -> None:
    """Its change is told without the old values, and counted."""
    long = [row({"id": "a", "n": n, "noise": os.urandom(20_000).hex()}) for n in (1, 2)]
    before = kept(long[:1])
    assert before[0].data == b""
    assert not compare(before, long[:1], **ABOUT).changed
    found = compare(before, long[1:], **ABOUT)
    assert found.untold == 1
    [(change, key, field, old, new)] = told(found)
    assert (change, key, field, old, new["n"]) == ("changed", "a", None, None, 2)
    [gone] = vanished(before, **ABOUT)
    assert msgspec.json.decode(gone.data)["old"] is None


def test_a_page_of_very_many_items() -> None:
    """A record has its bounds: what is beyond is compared as a whole."""
    rows = [row({"id": f"product-{n:05}", "price": n, "title": f"Cup {n}"}) for n in range(3_000)]
    before = kept(rows)
    assert sum(len(msgspec.msgpack.encode(one)) for one in before) <= KEPT_PAGE
    assert not compare(before, rows[::-1], **ABOUT).changed
    one_known = [row({"id": "product-00000", "price": 77, "title": "Cup 0"}), *rows[1:]]
    found = compare(before, one_known, **ABOUT)
    assert [one.ident for one in found.rows] == ["product-00000"]
    assert found.untold == 1  # there was no room for its data
    one_beyond = [*rows[:-1], row({"id": "product-02999", "price": 77, "title": "Cup"})]
    found = compare(before, one_beyond, **ABOUT)
    assert found.changed
    assert {one.ident for one in found.rows} >= {"product-02999"}
    assert found.untold == len(found.rows) > 2_000  # nobody knows which of them have changed
    assert found.changes == ()
    # Those that were known stay known, though others came before them.
    shifted = [row({"id": f"new-{n}"}) for n in range(10)] + rows
    names = {one.ident for one in before if one.digest}
    after = {one.ident for one in compare(before, shifted, **ABOUT).kept}
    assert len(names - after) <= 1
    fewer = compare(before, rows[: len(before) - 1], **ABOUT)
    assert fewer.changed
    assert fewer.untold == 1


def test_alike_items_take_little_room() -> None:
    rows = [
        row(
            {
                "id": f"sku-{n}",
                "title": f"Stoneware cup number {n}",
                "price": 10 + n,
                "currency": "EUR",
                "url": f"https://shop.example/products/stoneware/cup-{n}",
                "stock": True,
            }
        )
        for n in range(100)
    ]
    before = kept(rows)
    assert all(one.data for one in before)
    assert sum(len(one.data) for one in before) < 0.25 * sum(len(one.data) for one in rows)


def test_long_keys_are_matched() -> None:
    a, b = ("x" * 1_000 + end for end in "ab")
    found = compared([row({"id": a, "n": 1}), row({"id": b, "n": 1})], [row({"id": a, "n": 2})])
    assert [change[0] for change in told(found)] == ["changed", "vanished"]
    assert touches(found.kept, 1.0, ("id",)) == ()


def test_touches() -> None:
    rows = [row({"id": "a"}), row({"id": 5}), row({"n": 1}, ""), row({"n": 2}, "")]
    found = touches(kept(rows), 9.0, ("id",))
    assert [(one.ident, one.data, one.by) for one in found] == [
        ("a", b'{"id":"a"}\n', ("id",)),
        ("5", b'{"id":"5"}\n', ("id",)),
        ("", b"{}\n", ()),  # it stands for all rows without a key
    ]
    assert all(one.touch and one.at == 9.0 and one.table == "product" for one in found)
    two = KeptRow("product", '["a",2]', b"")
    assert touches([two], 9.0, ("x", "y"))[0].data == b'{"x":"a","y":2}\n'
    assert touches([two], 9.0, ("x", "y", "z")) == ()
    assert touches([KeptRow("product", "no JSON", b"")], 9.0, ("x", "y")) == ()


# -- applied to the old items, the changes give the new ones

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
items = st.dictionaries(st.sampled_from(["a", "b", "c", "", "id "]), values, max_size=4)
keyed = st.dictionaries(st.sampled_from("uvwxyz"), items, max_size=5)


def alike(one: Any, other: Any) -> bool:
    """A second opinion on what counts as equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or f"{one:.15g}" == f"{other:.15g}"
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and bool(one == other)


def without_null(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if value is not None}


def rows_of(found: dict[str, dict[str, Any]]) -> list[Row]:
    return [row({"id": key, **item}) for key, item in found.items()]


@given(keyed, keyed)
@example({"u": {"a": 1}}, {"u": {"a": True}})
@example({"u": {"a": 1e300}}, {"u": {"a": 1e301}})
def test_changes_applied_to_the_old_items_give_the_new_ones(old: Any, new: Any) -> None:
    found = compared(rows_of(old), rows_of(new))
    state = {key: without_null({"id": key, **item}) for key, item in old.items()}
    wanted = {key: without_null({"id": key, **item}) for key, item in new.items()}
    for change, key, field, before, after in told(found):
        if change == "appeared":
            assert key not in state
            state[key] = after
        elif change == "vanished":
            assert alike(state.pop(key), before)
        else:
            assert alike(state[key].get(field), before)
            assert not alike(before, after)
            state[key][field] = after
    assert alike({key: without_null(item) for key, item in state.items()}, wanted)
    # Exactly the items that differ are written.
    differ = {key for key in wanted if not alike(wanted[key], state_before(old, key))}
    assert {one.ident for one in found.rows} == differ
    assert {one.ident for one in found.touched} == wanted.keys() - differ
    assert found.changed == bool(found.changes)
    assert found.kept == kept(rows_of(new))
    assert not compare(found.kept, rows_of(new), **ABOUT).changed


def state_before(old: Any, key: str) -> Any:
    return without_null({"id": key, **old[key]}) if key in old else None


@given(st.lists(items, max_size=6), st.lists(items, max_size=6))
def test_items_without_a_key_as_a_bag(old: Any, new: Any) -> None:
    """Brute force: what is in both bags cancels out."""
    assume(len(old) != 1 or len(new) != 1)
    gone, come = list(map(without_null, old)), []
    for item in map(without_null, new):
        same = next((place for place, one in enumerate(gone) if alike(one, item)), None)
        if same is None:
            come.append(item)
        else:
            del gone[same]
    found = told(compared([row(one, "") for one in old], [row(one, "") for one in new]))
    assert len([one for one in found if one[0] == "appeared"]) == len(come)
    assert len([one for one in found if one[0] == "vanished"]) == len(gone)
    assert len(found) == len(come) + len(gone)


garbage = st.builds(
    KeptRow, st.sampled_from(["", "product", "\0"]), st.text(max_size=3), st.binary(max_size=9), st.binary()
)


@given(st.lists(garbage, max_size=4), st.lists(items, max_size=3), st.integers(0, 40), st.binary(max_size=3))
def test_garbage_in_a_record(before: Any, new: Any, where: int, noise: bytes) -> None:
    good = kept([row({"id": name, "text": "some text", "n": 1.5}) for name in "ab"])
    data = good[0].data
    broken = replace(good[0], data=data[:where] + noise + data[where + len(noise) :])
    found = compare((*before, broken, *good[1:]), [row(item, "a") for item in new], **ABOUT)
    assert len(found.kept) <= len(new)
    vanished(before, **ABOUT)
    touches((*before, broken), 1.0, ("a",))
    touches((*before, broken), 1.0, ("a", "b"))


def test_what_is_kept_cannot_be_a_bomb() -> None:
    import zlib

    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bomb = packer.compress(b" " * 2**26) + packer.flush()
    before = (KeptRow("product", "a", b"12345678", bomb),)
    assert compare(before, [row({"id": "a"})], **ABOUT).untold == 1

"""Quality of rows: what is learnt, what is an alarm and what is not, when it ends. The months of normal shops are in
`python -m benchmarks.quality_months`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.model import Row
from shoal.policy.quality import FIELDS, NO_QUALITY, Quality, observe
from shoal.policy.quality_alarms import accept, alarms, doubts, never_filled, number_of_alarms
from shoal.policy.quality_sample import PageSample, is_filled, number_of, samples_of, size_of

HOUR = 3600.0


def row(**fields: Any) -> Row:
    return Row(msgspec.json.encode(fields) + b"\n", None, "product")


def product(number: int = 0, **fields: Any) -> Row:
    return row(**{"name": f"Thing {number}", "price": 10.0 + number % 30, "rare": None, **fields})


class Shop:
    def __init__(self) -> None:
        self.quality: Quality = NO_QUALITY
        self.run = 1

    def sample(self, rows: Iterable[Row], **more: Any) -> PageSample:
        [sample] = samples_of("shop", "product", list(rows), self.quality)
        return replace(sample, job=self.run, at=self.run * HOUR, **more)

    def see(self, *rows: Row, **more: Any) -> list[str]:
        """Alarms after the page."""
        self.quality = observe(self.quality, self.sample(rows, **more))
        return self.alarms

    def see_all(self, rows: Iterable[Row]) -> int:
        """Pages until there is an alarm; 0: there is none."""
        for place, one in enumerate(rows, 1):
            if self.see(one):
                return place
        return 0

    def next_run(self) -> None:
        self.run += 1

    @property
    def alarms(self) -> list[str]:
        return [one.sentence for one in alarms(self.quality)]


@pytest.fixture
def shop() -> Shop:
    """After a first run over forty pages."""
    shop = Shop()
    assert not shop.see_all(product(number) for number in range(40))
    shop.next_run()
    return shop


# -- alarms


def test_a_field_that_is_empty_is_told_within_ten_pages(shop: Shop) -> None:
    assert shop.see_all(product(number, price=None) for number in range(40)) == 8
    assert shop.alarms == ["field price of handler product is empty on 8 of 8 pages; it was filled on 100 %"]


def test_a_field_that_is_left_out_is_empty(shop: Shop) -> None:
    assert shop.see_all(row(name="x", rare=None) for _ in range(40)) == 8


def test_a_number_that_becomes_a_text_is_told(shop: Shop) -> None:
    assert 0 < shop.see_all(product(number, price="on request") for number in range(40)) <= 10
    assert "is no number on 8 of 8 pages" in shop.alarms[0]


def test_prices_without_their_decimal_point_are_told(shop: Shop) -> None:
    assert 0 < shop.see_all(product(number, price=(10 + number % 30) * 100) for number in range(40)) <= 10
    assert shop.alarms[0].startswith("field price of handler product is about ")
    assert "; it was 13.3 to 30.8" in shop.alarms[0]


def test_pages_without_rows_are_told(shop: Shop) -> None:
    for _ in range(7):
        assert shop.see() == []
    assert shop.see() == ["handler product yields no rows on 8 of 8 pages; it did on 100 %"]


def test_pages_with_a_tenth_of_their_rows_are_told() -> None:
    shop = Shop()
    for _ in range(20):
        shop.see(*map(product, range(40)))
    shop.next_run()
    for _ in range(10):
        shop.see(product(), product())
    [told] = shop.alarms
    assert told.startswith("handler product yields about 2")
    assert told.endswith("rows a page; it was 40")


def test_a_shop_of_three_pages_is_told_in_its_third_run() -> None:
    shop = Shop()
    for _ in range(3):
        assert not shop.see_all(map(product, range(3)))
        shop.next_run()
    told = [bool(shop.see(product(price=None))) for _ in range(12)]
    assert told.index(True) in range(6, 12)


def test_nothing_is_told_in_the_first_run() -> None:
    shop = Shop()
    shop.see_all(map(product, range(40)))
    assert shop.see_all(product(price=None) for _ in range(40)) == 0


def test_a_second_visit_counts_like_a_second_run() -> None:
    shop = Shop()
    shop.see_all(map(product, range(40)))
    for _ in range(8):
        shop.see(product(price=None), revisit=True)
    assert shop.alarms


# -- no alarms


def test_a_sale_is_no_alarm(shop: Shop) -> None:
    assert not shop.see_all(product(number, price=(10 + number % 30) * 0.5) for number in range(200))


def test_small_numbers_and_counters_are_no_alarm() -> None:
    shop = Shop()
    for step in range(60):
        assert not shop.see_all(product(number, price=step, stock=step % 3) for number in range(20))
        shop.next_run()


def test_numbers_that_go_up_on_some_pages_and_down_on_others_are_no_alarm(shop: Shop) -> None:
    rng = random.Random(3)
    for number in range(400):
        sample = shop.sample([product(number, price=10 ** rng.uniform(0, 4))], revisit=True)
        price = replace(sample.fields["price"], before=rng.uniform(0, 4))
        shop.quality = observe(shop.quality, replace(sample, fields={**sample.fields, "price": price}))
        assert shop.alarms == []


def test_jumps_of_all_pages_since_their_last_visit_are_told(shop: Shop) -> None:
    for number in range(7):
        sample = shop.sample([product(number, price=2_000)], revisit=True)
        price = replace(sample.fields["price"], before=size_of(20))
        shop.quality = observe(shop.quality, replace(sample, fields={**sample.fields, "price": price}))
    [told] = shop.alarms
    assert told.startswith("field price of handler product is about 1,9")


def test_some_that_are_sold_out_are_no_alarm(shop: Shop) -> None:
    rng = random.Random(1)
    assert not shop.see_all(
        product(number, **({"price": None} if rng.random() < 0.3 else {})) for number in range(500)
    )


def test_the_last_pages_of_a_list_may_always_be_sold_out() -> None:
    shop = Shop()
    for _ in range(5):
        pages = [*map(product, range(30)), *(product(price=None) for _ in range(12))]
        assert not shop.see_all(pages)
        shop.next_run()


def test_a_field_that_is_rarely_filled_is_not_watched(shop: Shop) -> None:
    for number in range(100):
        shop.see(product(number, rare="x" if number % 4 == 0 else None))
    assert not shop.see_all(product(number) for number in range(100))


def test_new_fields_are_no_alarm(shop: Shop) -> None:
    assert not shop.see_all(product(number, new="x" if number % 2 else None) for number in range(100))


def test_a_field_that_was_taken_out_of_the_code_is_no_alarm(shop: Shop) -> None:
    for number in range(10):
        shop.see(product(number), code=1)
    for number in range(40):
        assert shop.see(row(name=f"Thing {number}"), code=2) == []


def test_a_field_that_new_code_leaves_empty_is_one(shop: Shop) -> None:
    for number in range(10):
        shop.see(product(number), code=1)
    for number in range(10):
        shop.see(product(number, price=None), code=2)
    assert shop.alarms


def test_a_page_that_is_looked_at_again_says_little_more(shop: Shop) -> None:
    for _ in range(3):
        shop.see(product(price=None))
    for _ in range(12):
        assert shop.see(product(price=None), again=True) == []


# -- the end of an alarm


def test_an_alarm_ends_when_pages_are_as_before(shop: Shop) -> None:
    shop.see_all(product(price=None) for _ in range(40))
    before = {name: one.share for name, one in shop.quality["shop/product"].fields.items()}
    for _ in range(100):  # what is broken is not learnt
        shop.see(product(price=None))
    assert {name: one.share for name, one in shop.quality["shop/product"].fields.items()}["price"] == before[
        "price"
    ]
    shop.next_run()
    for number in range(4):
        shop.see(product(number))
    assert shop.alarms == []
    assert shop.see_all(product(price=None) for _ in range(40)) == 8


def test_what_ended_by_itself_in_the_same_run_must_be_longer_next_time(shop: Shop) -> None:
    pages = [*(product(price=None) for _ in range(12)), *map(product, range(20))]
    assert shop.see_all(pages)
    for one in pages:
        shop.see(one)
    assert shop.alarms == []
    shop.next_run()
    assert not shop.see_all(pages)


def test_what_is_accepted_is_normal(shop: Shop) -> None:
    shop.see_all(product(price=None, name=None) for _ in range(40))
    shop.see(product(price=None, name=None))
    assert len(shop.alarms) == 2
    shop.quality = accept(shop.quality, field="price")
    assert [one.field for one in alarms(shop.quality)] == ["name"]
    assert accept(shop.quality, handler="other") == shop.quality
    shop.quality = accept(shop.quality, handler="product")
    shop.next_run()
    assert not shop.see_all(product(price=None, name=None) for _ in range(40))


def test_accepted_numbers_are_the_new_range(shop: Shop) -> None:
    assert shop.see_all(product(number, price=5_000 + number) for number in range(40))
    shop.quality = accept(shop.quality)
    assert not shop.see_all(product(number, price=5_000 + number) for number in range(100))


# -- one page


def test_numbers_of_an_alarm_are_normal_after_a_week(shop: Shop) -> None:
    assert shop.see_all(product(number, price=2_000) for number in range(40))
    shop.run += 7 * 24 + 1
    assert shop.see(product(price=2_000)) == []
    assert not shop.see_all(product(number, price=2_000) for number in range(40))


def test_a_field_that_is_empty_for_a_week_is_told_and_no_longer_doubted(shop: Shop) -> None:
    shop.see_all(product(price=None) for _ in range(40))
    assert doubts(shop.quality, shop.sample([product(price=None)]))
    shop.run += 7 * 24 + 1
    assert shop.see(product(price=None))
    assert doubts(shop.quality, shop.sample([product(price=None)])) == []


def test_a_page_without_what_is_usual_is_doubted(shop: Shop) -> None:
    assert doubts(shop.quality, shop.sample([product(rare=None)])) == []
    shop.see(product(1))
    [doubt] = doubts(shop.quality, shop.sample([product(price=None)]))
    assert (doubt.field, doubt.alarm) == ("price", False)
    assert doubt.sentence == "field price of handler product is empty on this page, and usually is not"
    for there in (1_000_000, 0, "on request"):
        assert doubts(shop.quality, shop.sample([product(price=there)])) == []
    shop.see_all(product(price=None) for _ in range(40))
    [doubt] = doubts(shop.quality, shop.sample([product(price=None)]))
    assert doubt.alarm
    assert doubts(shop.quality, shop.sample([product()])) == []


# -- bounds


def test_what_is_kept_of_a_host_is_bounded() -> None:
    shop = Shop()
    rng = random.Random(0)
    for number in range(300):
        names = {f"a_field_{rng.randrange(300)}": number for _ in range(30)}
        shop.see(row(**names, price=number))
    assert sum(len(unit.fields) for unit in shop.quality.values()) == FIELDS
    assert shop.quality["shop/product"].unwatched > 0
    assert len(msgspec.msgpack.encode(shop.quality)) < 2_500


def test_the_usual_shop_is_a_few_hundred_bytes(shop: Shop) -> None:
    for number in range(1_000):
        shop.see(product(number))
    assert len(msgspec.msgpack.encode(shop.quality)) < 300


def test_fields_that_were_never_filled_are_known(shop: Shop) -> None:
    assert list(never_filled(shop.quality)) == [("shop/product", "rare", 40)]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=70), inner, max_size=12),
    max_leaves=20,
)


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e308, 5e-324])
def test_numbers_beyond_all_measure(number: float, shop: Shop) -> None:
    for _ in range(40):
        shop.see(product(price=number))
    assert alarms(accept(shop.quality)) == []


@given(st.lists(_JSON, max_size=12))
def test_whatever_pages_yield(values: list[Any]) -> None:
    shop = Shop()
    for value in values:
        shop.run += 1
        shop.quality = observe(
            shop.quality,
            replace(
                samples_of("a/b", "c", [Row(msgspec.json.encode(value), None, "t")], shop.quality)[0],
                job=shop.run,
            ),
        )
    packed = msgspec.msgpack.encode(shop.quality)
    assert len(packed) < 4_000
    assert number_of_alarms(shop.quality) == len(alarms(shop.quality))


# -- what is filled, what is a number


@pytest.mark.parametrize("value", [0, False, "x", [0], {"a": 1}, 0.0, [[["x"]]]])
def test_filled(value: Any) -> None:
    assert is_filled(value)


@pytest.mark.parametrize("value", [None, "", "  ", "\u00a0", [], {}, [None], {"a": ""}, [{"a": []}]])
def test_empty(value: Any) -> None:
    assert not is_filled(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((1_000, 1_000), (19.99, 19.99), (-20, 20), (0, 0), (0.001, 0.001)),
        *(("19.99", 19.99), ("19,99 €", 19.99), ("1.299,00 €", 1299), ("$1,299", 1299), ("1'299.50", 1299.5)),
        *(("EUR 5", 5), ("1 299,00", 1299), ("1999", 1999)),
    ],
)
def test_numbers(value: Any, number: float) -> None:
    size = size_of(value)
    assert size is not None
    assert number_of(size) == pytest.approx(number)


@pytest.mark.parametrize(
    "value", ["", "x", "Model 15", "2024-05-01", "A15-0001", True, None, [1], "1" * 33, "٣"]
)
def test_no_numbers(value: Any) -> None:
    assert size_of(value) is None or value == "٣"

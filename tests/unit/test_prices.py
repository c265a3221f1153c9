"""Prices, availability and dates as people write them. A second opinion on prices is price-parser's."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from price_parser import Price as SecondOpinion

from shoal.html.records.availability import AVAILABILITIES, availability_of
from shoal.html.records.currencies import CODES, SIGNS, local_currency
from shoal.html.records.dates import iso_date, iso_duration
from shoal.html.records.prices import decimal_text, parse_price


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1.234,50 €", "1234.50", "EUR"),
        ("€1,234.50", "1234.50", "EUR"),
        ("CHF 1'234.–", "1234", "CHF"),
        ("1’234.50 CHF", "1234.50", "CHF"),
        ("₹1,23,456", "123456", "INR"),
        ("kr 1 234,-", "1234", None),
        ("499:-", "499", None),
        ("Rs. 500", "500", "INR"),
        ("from 10", "10", None),
        ("ab 9,99 €*", "9.99", "EUR"),
        ("10 - 20 €", "10", "EUR"),
        ("$10 – $20", "10", "USD"),
        ("12€50", "12.50", "EUR"),
        ("12,50 EUR/kg", "12.50", "EUR"),
        ("1\u202f234,50\u00a0zł", "1234.50", "PLN"),
        ("٣٫٥٠ د.إ", "3.50", "AED"),
        ("１２３４円", "1234", "JPY"),
        ("-30% 12,99 €", "12.99", "EUR"),
        ("Save 20 % now $8", "8", "USD"),
        ("2 x 3,50 €", "3.50", "EUR"),
        ("AU $59.95", "59.95", "AUD"),
        ("$12.00 CAD", "12.00", "CAD"),
        ("1.299", "1299", None),
        ("0.125", "0.125", None),
        ("12.345 KWD", "12.345", "KWD"),
        ("12.05.2026: 5 €", "5", "EUR"),
        ("R$ 1.299,90", "1299.90", "BRL"),
        ("Free!", "0", None),
        ("1 234 567,89 Kč", "1234567.89", "CZK"),
        (".75 €", "0.75", "EUR"),
        ("try again, 5 left", "5", None),  # "try" is no Turkish lira here
    ],
)
def test_prices(text: str, amount: str, currency: str | None) -> None:
    price = parse_price(text)
    assert price is not None
    assert (str(price.amount), price.currency) == (amount, currency)


@pytest.mark.parametrize("text", ["", "€", "call us", "-30%", "½", "9" * 100, "1." * 100, "12.05.2026"])
def test_no_prices(text: str) -> None:
    assert parse_price(text) is None


def test_hints() -> None:
    def currency(text: str, hint: str | None = None, home: str | None = None) -> str | None:
        price = parse_price(text, hint, home=home)
        return None if price is None else price.currency

    assert currency("5", "USD") == currency("$5") == currency("5", "Price in US$:") == "USD"
    assert currency("$5", "AUD") == currency("$5", home="AUD") == "AUD"
    assert currency("5 €", "USD") == currency("€5", home="CAD") == "EUR"  # a sign of one meaning needs none
    assert currency("5", home="CAD") is None  # a bare number is not in dollars because the page is Canadian
    assert [currency("5 kr", home=home) for home in ("SEK", "NOK", "DKK", "EUR", None)] == [
        "SEK",
        "NOK",
        "DKK",
        None,
        None,
    ]
    assert (currency("¥5"), currency("¥5", home="CNY")) == ("JPY", "CNY")


def test_where_a_page_is_from() -> None:
    assert local_currency("en-CA", "shop.example") == "CAD"
    assert local_currency("en", "shop.example.com.au") == "AUD"
    assert local_currency("en-CA", "shop.example.com.au") == "CAD"
    assert local_currency("sv", "shop.example") == "SEK"
    assert local_currency("", "") is None


def test_the_decimals_of_a_currency() -> None:
    texts = [
        ("10", "EUR"),
        ("10.5", None),
        ("10.125", "EUR"),
        ("10.00", "JPY"),
        ("10.5", "KWD"),
        ("0", "USD"),
    ]
    assert [decimal_text(Decimal(amount), currency) for amount, currency in texts] == [
        "10.00",
        "10.50",
        "10.125",
        "10",
        "10.500",
        "0.00",
    ]


def test_every_code_and_sign_means_a_currency() -> None:
    assert {code for meanings in SIGNS.values() for code in meanings} - {""} <= CODES
    assert all(SIGNS[code.casefold()] == (code,) for code in CODES)


def test_price_parser_agrees() -> None:
    """On prices in all the ways that numbers are written, with words around them."""
    chance = random.Random(1)
    for _ in range(2_000):
        amount = Decimal(chance.choice((chance.randrange(10**3), chance.randrange(10**7)))) + Decimal(
            chance.choice(("0.00", "0.99", "0.50", "0.05"))
        )
        plain = f"{amount:,.2f}" if chance.random() < 0.8 else f"{amount:.2f}"
        point, comma = chance.choice(((".", ","), (",", "."), (",", " "), (",", "\u00a0"), (".", "'")))
        number = plain.replace(".", "p").replace(",", comma).replace("p", point)
        sign = chance.choice(("€", "$", "£", "USD", "zł", "Kč", "CHF"))
        text = chance.choice(
            (f"{sign} {number}", f"{number} {sign}", f"{sign}{number}", f"from {sign}{number} *")
        )
        price, second = parse_price(text), SecondOpinion.fromstring(text)
        assert price is not None, text
        assert price.amount == second.amount == amount, text
        assert price.symbol == second.currency, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://schema.org/InStock", "in_stock"),
        ("http://schema.org/instock/", "in_stock"),
        ("InStock", "in_stock"),
        ("in stock", "in_stock"),
        ("IN_STOCK", "in_stock"),
        ("schema:OutOfStock", "out_of_stock"),
        ("https://schema.org/SoldOut", "out_of_stock"),
        ("oos", "out_of_stock"),
        ("http://schema.org/PreOrder", "preorder"),
        ("BackOrder", "backorder"),
        ("https://schema.org/Discontinued", "discontinued"),
        ("LimitedAvailability", "limited"),
        ("https://schema.org/OnlineOnly", "online_only"),
        ("InStoreOnly", "in_store_only"),
        ("Sorry, this item is sold out.", "out_of_stock"),
        ("Not in stock", "out_of_stock"),
        ("Ausverkauft", "out_of_stock"),
        ("Nicht auf Lager", "out_of_stock"),
        ("Sofort lieferbar, auf Lager", "in_stock"),
        ("lagernd", "in_stock"),
        ("Nicht mehr lieferbar", "discontinued"),
        ("Nur noch 3 Stück auf Lager", "limited"),
        ("Épuisé", "out_of_stock"),
        ("En stock", "in_stock"),
        ("Agotado", "out_of_stock"),
        ("Disponible", "in_stock"),
        ("No disponible", "out_of_stock"),
        ("Esaurito", "out_of_stock"),
        ("Esgotado", "out_of_stock"),
        ("Uitverkocht", "out_of_stock"),
        ("Op voorraad", "in_stock"),
        ("Slutsåld", "out_of_stock"),
        ("Finns i lager", "in_stock"),
        ("Niedostępny", "out_of_stock"),
        ("Dostępny", "in_stock"),
        ("Není skladem", "out_of_stock"),
        ("Skladem > 5 ks", "in_stock"),
        ("Нет в наличии", "out_of_stock"),
        ("В наличии", "in_stock"),
        ("Stokta yok", "out_of_stock"),
        ("在庫あり", "in_stock"),
        ("売り切れ", "out_of_stock"),
        ("품절", "out_of_stock"),
        ("缺货", "out_of_stock"),
        ("Available for pre-order", "preorder"),
        ("A lamp", None),
        ("", None),
    ],
)
def test_availability(text: str, expected: str | None) -> None:
    assert availability_of(text) == expected
    assert expected is None or expected in AVAILABILITIES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01", "2026-05-01"),
        ("2026-05", "2026-05"),
        ("2026", "2026"),
        ("20260501", "2026-05-01"),
        ("2026-05-01T10:00", "2026-05-01T10:00:00"),
        ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00+00:00"),
        ("2026-05-01T10:00:00.123+0200", "2026-05-01T10:00:00+02:00"),
        ("2026-05-01 10:00:00 +02:00", "2026-05-01T10:00:00+02:00"),
        ("2026-05-01T24:00:00", "2026-05-02T00:00:00"),
        ("20260501T100000Z", "2026-05-01T10:00:00+00:00"),
        ("2026/5/1", "2026-05-01"),
        ("1.5.2026", "2026-05-01"),
        ("May 1, 2026", "2026-05-01"),
        ("1st May 2026", "2026-05-01"),
        ("Friday, May 1, 2026 at 3:30 PM", "2026-05-01T15:30:00"),
        ("Fri, 01 May 2026 10:00:00 GMT", "2026-05-01T10:00:00+00:00"),
        (1777629600, "2026-05-01T10:00:00+00:00"),
        ("1777629600000", "2026-05-01T10:00:00+00:00"),
        ("01/02/2026", None),  # which is the month?
        ("2026-13-01", None),
        ("2026-02-30", None),
        ("soon", None),
        ("", None),
        (True, None),
        (None, None),
    ],
)
def test_dates(text: object, expected: str | None) -> None:
    assert iso_date(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H30M", "PT1H30M"),
        ("pt45m", "PT45M"),
        ("P1DT2H", "P1DT2H"),
        ("1 hour 30 mins", "PT1H30M"),
        ("45 min", "PT45M"),
        (30, "PT30M"),
        ("30", "PT30M"),
        ("PT", None),
        ("a while", None),
        (None, None),
    ],
)
def test_durations(text: object, expected: str | None) -> None:
    assert iso_duration(text) == expected

"""Numbers as people write them: "1,234.50", "1.234,50", "1 234,50", "22 left". Pure.

With both a dot and a comma, the last one begins the decimals. One kind of separator that is there twice, or an
apostrophe or a blank, groups thousands. A single comma before exactly three digits groups thousands; a single dot does
so only where a whole number is meant. `sample` says how a site writes them: "1.234,56".
"""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(r"(?<![\d.,])[-+−]?(?:\d[\d.,'’ \u00a0\u202f\u2009]{0,60})|(?<![\d])[.,]\d{1,30}")
_GROUPS = re.compile(r"['’ \u00a0\u202f\u2009]")
_SAMPLE = re.compile(r"\d{1,3}(?P<group>[.,'’ \u00a0\u202f]?)\d{3}(?:(?P<point>[.,])\d+)?")


def number_in(text: str, *, whole: bool = False, sample: str | None = None) -> Decimal | None:
    """The first number in a text; None: there is none."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    written = found[0].replace("−", "-")
    sign = -1 if written.startswith("-") else 1
    digits = _one_number(written.lstrip("+-"))
    point = _point_of_sample(sample) if sample else _point(digits, whole)
    before, _, after = digits.rpartition(point) if point and point in digits else (digits, "", "")
    plain = re.sub(r"\D", "", before) or "0"
    decimals = re.sub(r"\D", "", after)
    return sign * Decimal(f"{plain}.{decimals}" if decimals else plain)


def _one_number(written: str) -> str:
    """Without what follows it: "12, 13" and "1 20" are two numbers, "1 234" is one."""
    parts = re.split(r"([.,'’ \u00a0\u202f\u2009]+)", written)
    kept = parts[0]
    for separator, digits in zip(parts[1::2], parts[2::2], strict=False):
        if not digits or len(separator) > 1 or (_GROUPS.match(separator) and len(digits) != 3):
            break
        kept += separator + digits
    return _GROUPS.sub("'", kept)


def _point(digits: str, whole: bool) -> str:
    """The sign before the decimals; "": there are none."""
    dots, commas = digits.count("."), digits.count(",")
    if dots and commas:
        return "." if digits.rfind(".") > digits.rfind(",") else ","
    sign = "." if dots else "," if commas else ""
    if not sign or dots + commas > 1:
        return ""
    before, _, after = digits.partition(sign)
    groups = len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0") and "'" not in before
    return "" if groups and (whole or sign == ",") else sign


def is_sample(text: str) -> bool:
    return _SAMPLE.fullmatch(text) is not None


def _point_of_sample(sample: str) -> str:
    found = _SAMPLE.fullmatch(sample)
    if found is None:
        return "."
    if found["point"]:
        return found["point"]
    return "," if found["group"] == "." else "."

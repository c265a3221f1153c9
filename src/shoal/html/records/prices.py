"""Prices as people write them: "1.234,50 €", "CHF 1'234.–", "₹1,23,456", "from $10". Pure.

A separator with three digits behind it stands between thousands, unless the currency has three decimals or the number
begins with a zero; with any other number of digits it is the decimal one. Of several numbers the one beside a currency
counts, else the first that is no percentage.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import NamedTuple

from shoal.html.records.currencies import CODES, DECIMALS, SIGNS, code_of

_LOOK = 500  # characters of a text that are looked at
_DIGITS = 24  # of an amount; more are no price


class Price(NamedTuple):
    amount: Decimal
    currency: str | None = None  # by ISO 4217
    symbol: str | None = None  # the currency as it is written there

    @property
    def text(self) -> str:
        """The amount with the decimals of its currency: "1234.50", "1200" for yen; more if it has more."""
        return decimal_text(self.amount, self.currency)


_BLANK = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\t\n\r\f\v]")
_UNSEEN = re.compile("[\u200b-\u200f\u2060\ufeff\u061c\u00ad]")
_ALIKE = ("' ’‘ʼ´`′", ". ٫．。", ", ٬،，", "- –—−－", "$ ＄", "¥ ￥", "£ ￡", "₩ ￦", "% ％٪")
_PLAIN = str.maketrans({char: alike[0] for alike in _ALIKE for char in alike[2:]})


_SIMPLE = re.compile(r"\d{1,12}(?:\.\d{1,2})?", re.ASCII)
# Thousands with blanks or apostrophes; a price with a blank behind its point; one with the currency as its point;
# anything else of digits and separators.
_NUMBER = re.compile(
    r"(?P<grouped>(?<!\d)\d{1,3}(?:[ ']\d{3})++(?:[.,]\d{1,4}+)?+(?!\d))"
    r"|(?P<apart>\d++(?:[.,]\d{3})*+[.,] \d\d(?![\d.,]))"
    r"|(?P<signed>\d++(?: ?[€£$]|€ )\d\d(?![\d.,€£$]| [€£$]))"
    r"|(?P<run>[.,]?\d++(?:[.,']\d++)*+)",
    re.ASCII,
)
_WORD = re.compile(r"[^\d\s,:;()%*+|<>=\[\]!?-]+")
_PERCENT = re.compile(r" ?%")
_DATE = re.compile(r"\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d", re.ASCII)
_COUNTRY = re.compile(r"(?<![A-Za-z])([A-Za-z]{1,3}) $")
_RANGE = re.compile(r"\s*(?:-|~|to|bis|a|à|do|až|until|до|－|～)\s*", re.IGNORECASE)
_BETWEEN = frozenset(" :.=")
_NEAR = 3  # characters between an amount and its currency
_FOR_FREE = "free gratis kostenlos gratuit gratuito grátis zdarma ingyenes бесплатно ücretsiz 免费 無料"
_FREE = frozenset(_FOR_FREE.split())
# Codes that are words of a language, too.
_WORDS_TOO = "all ang ars bam bob cop cup gel lak mad mop nad pen php ron sit sos std top try won"
_ONLY_IN_CAPITALS = frozenset(_WORDS_TOO.split())


def parse_price(text: str, currency_hint: str | None = None, *, home: str | None = None) -> Price | None:
    """The first price in a text; None if it has no number.

    `currency_hint` is what is known about the currency: a code, a sign, or a text that has one. It counts where the
    text names no currency, or one that may be several. `home` is the code where the page is from: it counts only for
    those.
    """
    text = text.strip()
    if _SIMPLE.fullmatch(text):
        return Price(Decimal(text), *_hinted(currency_hint, home))
    text = _plain(text)
    numbers = [
        found
        for found in _NUMBER.finditer(text)
        if not _PERCENT.match(text, found.end()) and not _DATE.fullmatch(found[0])
    ]
    signs = _signs(text)
    if not numbers:
        is_free = any(word.strip(".!").casefold() in _FREE for word in text.split())
        return Price(Decimal(0), *_hinted(currency_hint, home)) if is_free else None
    chosen, sign = _choose(text, numbers, signs)
    currency, symbol = _currency(sign, signs, currency_hint, home)
    amount = _amount(chosen, DECIMALS.get(currency or "", 2))
    return None if amount is None else Price(amount, currency, symbol)


def decimal_text(amount: Decimal, currency: str | None) -> str:
    """With as many decimals as the currency has, or more if there are more."""
    usual = DECIMALS.get(currency or "", 2)
    plain = format(amount, "f")
    whole, _, decimals = plain.partition(".")
    decimals = decimals.rstrip("0").ljust(usual, "0")
    return f"{whole}.{decimals}" if decimals else whole


def _plain(text: str) -> str:
    """One kind of blanks, digits and separators."""
    text = _UNSEEN.sub("", _BLANK.sub(" ", text[:_LOOK])).translate(_PLAIN)
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() or not char.isdecimal() else str(unicodedata.decimal(char)) for char in text
    )


class _Sign(NamedTuple):
    start: int
    end: int
    word: str


def _signs(text: str) -> list[_Sign]:
    """The words and signs that mean a currency."""
    signs: list[_Sign] = []
    for found in _WORD.finditer(text):
        for at, word in _names(found[0]):
            start = found.start() + at
            country = _COUNTRY.search(text, max(0, start - 5), start) if word == "$" else None
            if country and (whole := country[1] + word).casefold() in SIGNS:  # "AU $10"
                signs.append(_Sign(country.start(), start + 1, whole))
            else:
                signs.append(_Sign(start, start + len(word), word))
    return signs


def _names(word: str) -> list[tuple[int, str]]:
    """ "EUR", "€/kg", "Rs.", "ab€": the part that names a currency, and where."""
    for part in (word, word.rstrip(".'\"/"), word.strip(".'\"/"), word.partition("/")[0]):
        lower = part.casefold()
        if lower in SIGNS and not (lower in _ONLY_IN_CAPITALS and part.islower()):
            return [(word.index(part), part)]
    if "/" in word:
        after = word.rpartition("/")[2]
        if after.casefold() in SIGNS and len(after) > 2:
            return [(word.rindex(after), after)]
    return [
        (at, char) for at, char in enumerate(word) if char in SIGNS and unicodedata.category(char) == "Sc"
    ][:1]


def _choose(
    text: str, numbers: list[re.Match[str]], signs: list[_Sign]
) -> tuple[re.Match[str], _Sign | None]:
    """The first number beside a currency, else the first one; of a range, its lower end."""
    for number, found in enumerate(numbers):
        sign = _beside(text, found, signs)
        if sign is not None:
            if number and _RANGE.fullmatch(text, numbers[number - 1].end(), found.start()):
                found = numbers[number - 1]
            return found, sign
    return numbers[0], None


def _beside(text: str, found: re.Match[str], signs: list[_Sign]) -> _Sign | None:
    if found["signed"]:
        return next((sign for sign in signs if found.start() <= sign.start < found.end()), None)
    best: tuple[int, _Sign] | None = None
    for sign in signs:
        if sign.end <= found.start():
            gap = text[sign.end : found.start()]
        elif sign.start >= found.end():
            gap = text[found.end() : sign.start]
            gap = gap.lstrip(".,-")  # of "10,- €"
        else:
            continue
        if len(gap) <= _NEAR and _BETWEEN.issuperset(gap) and (best is None or len(gap) < best[0]):
            best = len(gap), sign
    return best[1] if best else None


def _currency(
    sign: _Sign | None, signs: list[_Sign], hint: str | None, home: str | None
) -> tuple[str | None, str | None]:
    if sign is None:
        sign = next((one for one in signs if _is_surely_a_currency(one.word)), None)
        if sign is None:
            return _hinted(hint, home)
    meanings = SIGNS[sign.word.casefold()]
    if len(meanings) == 1:
        return meanings[0], sign.word
    others = [SIGNS[one.word.casefold()][0] for one in signs if one is not sign]
    told = next((code for code in (*others, _hinted(hint, home)[0], home) if code in meanings), None)
    return told or meanings[0] or None, sign.word


def _is_surely_a_currency(word: str) -> bool:
    """Even where no number is beside it."""
    return word in CODES or not word.isascii() or "$" in word


def _hinted(hint: str | None, home: str | None) -> tuple[str | None, str | None]:
    """The currency that a hint names: a code, a sign or a text."""
    if not hint:
        return None, None
    if code := code_of(hint, home):
        return code, None
    signs = _signs(_plain(hint))
    for sign in signs:
        return code_of(sign.word, home), sign.word
    return None, None


def _amount(found: re.Match[str], decimals: int) -> Decimal | None:
    text = found[0]
    if found["grouped"]:
        text = text.replace(" ", "").replace("'", "").replace(",", ".")
    elif found["apart"]:
        text = _decimal(text.replace(" ", ""), decimals)
    elif found["signed"]:
        text = re.sub(r" ?[€£$] ?", ".", text)
    else:
        text = _decimal(text, decimals)
    return Decimal(text) if 0 < len(text) <= _DIGITS else None


def _decimal(text: str, decimals: int) -> str:
    """Digits with separators, as Python writes them. See the top for the rules."""
    parts = re.split(r"([.,'])", text)
    marks, groups = parts[1::2], parts[::2]
    if not marks:
        return text
    last, before = marks[-1], marks[:-1]
    cents = groups[-1]
    if not groups[0] and len(groups) == 2:  # ".75"
        return f"0.{cents}"
    if before and last not in before:
        is_decimal = bool(groups[0])
    elif before:
        is_decimal = len(cents) != 3
    else:
        is_thousands = len(cents) == 3 and len(groups[0]) <= 3 and not groups[0].startswith("0")
        is_decimal = not is_thousands or (decimals == 3 and last != "'")
    whole = "".join(groups[:-1])
    return f"{whole or '0'}.{cents}" if is_decimal else whole + cents

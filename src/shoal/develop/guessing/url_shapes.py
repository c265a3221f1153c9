"""What URLs have in common: a pattern that fits the products of a site, and nothing else that was seen. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

_MOST = 500  # URLs that are looked at
_DIGITS = re.compile(r"\d+")


def shape_of(url: str) -> tuple[int, str, str]:
    """Rough: how deep the path is, its ending, and the names in its query. URLs of one kind of page have the same."""
    parts = urlsplit(url)
    steps = [step for step in parts.path.split("/") if step]
    last = steps[-1] if steps else ""
    ending = last.rpartition(".")[2] if "." in last and len(last.rpartition(".")[2]) <= 5 else ""
    names = "&".join(sorted(pair.partition("=")[0] for pair in parts.query.split("&") if pair))
    return len(steps), ending + ("/" if parts.path.endswith("/") else ""), names


def most_common_shape(urls: Iterable[str]) -> list[str]:
    """Those of the shape that most have, in their order."""
    some = list(urls)[:_MOST]
    if not some:
        return []
    shape = Counter(map(shape_of, some)).most_common(1)[0][0]
    return [url for url in some if shape_of(url) == shape]


def pattern_for(products: Sequence[str], others: Iterable[str]) -> str | None:
    """A pattern as `match` takes it, which fits all products and none of the others; None if there is none."""
    alike = most_common_shape(products)
    if len(alike) < 2:
        return None
    elsewhere = [url for url in list(others)[:_MOST] if url not in set(alike)]
    for pattern, regex in _patterns(alike):
        if all(regex.search(url) for url in alike) and not any(regex.search(url) for url in elsewhere):
            return pattern
    return None


def _patterns(alike: Sequence[str]) -> Iterable[tuple[str, re.Pattern[str]]]:
    """The plain one, and an exact one."""
    steps = [[step for step in urlsplit(url).path.split("/") if step] for url in alike]
    columns = list(zip(*steps, strict=True))
    has_query = any(urlsplit(url).query for url in alike)
    if columns and len(columns) > 1 and not has_query and len(set(columns[0])) == 1:
        start = f"/{columns[0][0]}/"
        yield f"{start}*", re.compile(r"^[a-z]+://[^/]+" + re.escape(start))
    path = "/" + "/".join(_step(column) for column in columns)
    path += "/" if urlsplit(alike[0]).path.endswith("/") and columns else ""
    query = _query(alike) if has_query else ""
    exact = f"{path}{query}$"
    yield f"re:{exact}", re.compile(exact)


def _step(values: Sequence[str]) -> str:
    """A regular expression for one step of the path."""
    if len(set(values)) == 1:
        return re.escape(values[0])
    ending = values[0][values[0].rindex(".") :] if "." in values[0] else ""
    ending = ending if ending and all(value.endswith(ending) for value in values) else ""
    bare = [value.removesuffix(ending) if ending else value for value in values]
    if all(value.isdecimal() for value in bare):
        return r"\d+" + re.escape(ending)
    if all(re.fullmatch(r"\d+-.+", value) for value in bare):
        return r"\d+-[^/]+" + re.escape(ending)
    if all(re.fullmatch(r"[A-Za-z]{1,4}\d+", value) for value in bare):
        head = _DIGITS.split(bare[0])[0]
        return (
            (re.escape(head) if all(value.startswith(head) for value in bare) else "[A-Za-z]+")
            + r"\d+"
            + re.escape(ending)
        )
    if all(re.fullmatch(r".+-\d+", value) for value in bare):
        return r"[^/]+-\d+" + re.escape(ending)
    return "[^/]+" + re.escape(ending)


def _query(alike: Sequence[str]) -> str:
    rows = [urlsplit(url).query.split("&") for url in alike]
    if len({len(row) for row in rows}) != 1:
        return ""
    made = []
    for column in zip(*rows, strict=True):
        name = column[0].partition("=")[0]
        values = {pair.partition("=")[2] for pair in column}
        if len(values) == 1:
            made.append(re.escape(column[0]))
        else:
            kind = r"\d+" if all(value.isdecimal() for value in values) else "[^&]+"
            made.append(f"{re.escape(name)}={kind}")
    return r"\?" + "&".join(made)

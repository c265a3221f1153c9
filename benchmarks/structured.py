"""Structured data: how much of it is right, beside extruct and price-parser, and what it costs.

    python -m benchmarks.structured --extruct DIR --price-parser DIR --schemaorg DIR

The folders are clones of github.com/scrapinghub/extruct, github.com/scrapinghub/price-parser and
github.com/schemaorg/schemaorg (their .git will do): their test cases and published examples are read from there.
Without one, its part is left out. `pip install 'shoal[bench]'` brings extruct and price-parser.

A fact is a type, a property and a value, with white space squeezed. A case is right if it has the same facts as
expected: as extruct's tests expect it, or as price-parser's do. schema.org's examples come without a result: there
the two are compared with each other.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import subprocess
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shoal.html.parsing import parse
from shoal.html.records import records
from shoal.html.records.currencies import SIGNS
from shoal.html.records.prices import parse_price
from shoal.html.structured import Structured
from shoal.html.structured.microdata import short
from shoal.model import Response, Task
from shoal.spider.page import Page

BASE = "http://www.example.com/page"
BASES = {  # of some of extruct's cases
    "microdata.7.1": "http://blog.example.com/progress-report",
    "microdata.object": "http://www.example.com/microdata/x",
}
SYNTAXES = {"json-ld": "jsonld", "microdata": "microdata", "rdfa": "rdfa", "opengraph": "opengraph"}
Facts = Counter[tuple[str, str, str]]


class Repository:
    """Files of a clone, by its folder or its .git."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".git" if (folder / ".git").exists() else folder

    def names(self, under: str) -> list[str]:
        return self._git("ls-tree", "-rz", "--name-only", "HEAD", under).decode().split("\0")[:-1]

    def read(self, name: str) -> bytes:
        return self._git("show", f"HEAD:{name}")

    def _git(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", f"--git-dir={self._folder}", *words], capture_output=True, check=True
        ).stdout


# -- facts


def facts(items: Any) -> Facts:
    """Of items in the shape of JSON-LD."""
    found: Facts = Counter()
    waiting = list(items) if isinstance(items, list) else [items]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict):
            continue
        kind = _kind(item)
        for name, given in item.items():
            if name.startswith("@"):
                continue
            for value in given if isinstance(given, list) else [given]:
                if isinstance(value, dict) and "@value" in value:
                    value = value["@value"]
                if isinstance(value, dict) and "@type" in value:
                    waiting.append(value)
                    value = _kind(value)
                elif isinstance(value, dict):
                    value = value.get("@id", "")
                found[kind, short(name), _squeezed(value)] += 1
    return found


def _kind(item: dict[str, Any]) -> str:
    given = item.get("@type") or ""
    return " ".join(sorted(short(name) for name in (given if isinstance(given, list) else [given])))


def _squeezed(value: object) -> str:
    """Addresses are the same whether they are relative or not: half of the cases have no base."""
    text = " ".join(str(value).split()).removeprefix("http://www.example.com/")
    return re.sub(r"^(https?://[^/]+)/$", r"\1", text.removeprefix("/"))


def from_microdata(items: list[Any]) -> list[dict[str, Any]]:
    """extruct's form in the shape of JSON-LD."""

    def value(one: Any) -> Any:
        if isinstance(one, list):
            return [value(each) for each in one]
        if isinstance(one, dict) and ("properties" in one or "type" in one):
            return from_microdata([one])[0]
        return one.get("value", "") if isinstance(one, dict) else one

    return [
        {"@type": item.get("type"), **{name: value(one) for name, one in item.get("properties", {}).items()}}
        for item in items
    ]


def from_rdfa(items: list[Any]) -> list[dict[str, Any]]:
    """Expanded JSON-LD: one object a subject, references by @id. Those without a type are the page itself."""
    known = {item.get("@id"): item for item in items}

    def value(one: Any) -> Any:
        if "@value" in one:
            return one["@value"]
        target = known.get(one.get("@id"))
        return {"@type": target["@type"]} if target and "@type" in target else one.get("@id")

    return [
        {
            name: given if name.startswith("@") else [value(one) for one in given]
            for name, given in item.items()
        }
        for item in items
        if "@type" in item
    ]


def as_facts(syntax: str, items: Any) -> Facts:
    """Of what extruct gives, or its tests expect."""
    if syntax == "opengraph":
        pairs = [pair for item in items for pair in item["properties"]]
        return Counter(
            (syntax, name, _squeezed(value)) for name, value in pairs if not name.startswith("fb:")
        )
    if syntax == "microdata":
        return facts(from_microdata(items))
    if syntax == "rdfa":
        return facts(from_rdfa(items))
    return facts(list(_parts(items)))


def _parts(items: list[Any]) -> Iterator[Any]:
    """Graphs are opened, as page.jsonld() does."""
    for item in items:
        if isinstance(item, dict) and isinstance(item.get("@graph"), list):
            yield from _parts(item["@graph"])
        else:
            yield item


def ours(syntax: str, html: bytes, base: str = BASE) -> Facts:
    found = Structured(parse(html)[0], base).by_syntax()[SYNTAXES[syntax]]
    if syntax == "opengraph":
        return Counter(
            (syntax, name, _squeezed(one))
            for name, value in found.items()
            for one in (value if isinstance(value, list) else [value])
            if not name.startswith(("fb:", "al:"))  # of Facebook, which extruct leaves out
        )
    return facts(found)


def theirs(syntax: str, html: bytes, base: str = BASE) -> Facts:
    import extruct

    try:
        return as_facts(
            syntax, extruct.extract(html.decode("utf-8", "replace"), base_url=base, syntaxes=[syntax])[syntax]
        )
    except Exception:  # what a user would see, too
        return Counter()


# -- extruct's test cases


def extruct_cases(repository: Repository) -> Iterator[tuple[str, str, bytes, Facts]]:
    """Name, syntax, page, expected facts."""
    names = set(repository.names("tests/samples"))
    used = "".join(
        repository.read(name).decode() for name in repository.names("tests") if name.endswith(".py")
    )
    for name in sorted(names):
        stem, _, ending = name.rpartition(".")
        html = next(
            (one for one in (f"{stem}.html", f"{stem.removesuffix('.expanded')}.html") if one in names), None
        )
        if (
            html is None
            or ending not in ("json", "jsonld")
            or any(word in name for word in ("flat", "microformat"))
        ):
            continue
        if stem.rpartition("/")[2].partition(".example")[0] not in used:
            continue
        page, expected = repository.read(html), json.loads(repository.read(name))
        if ending == "jsonld":
            yield name, "json-ld", page, as_facts("json-ld", expected)
        elif name.endswith(".expanded.json"):
            yield name, "rdfa", page, as_facts("rdfa", expected)
        elif isinstance(expected, dict):
            for syntax in SYNTAXES:
                if syntax in expected:
                    yield name, syntax, page, as_facts(syntax, expected[syntax])
        elif expected and "properties" in expected[0]:
            syntax = "opengraph" if "namespace" in expected[0] else "microdata"
            yield name, syntax, page, as_facts(syntax, expected)


def compare_extruct(repository: Repository, verbose: bool) -> list[bytes]:
    rows: dict[str, list[int]] = {}
    pages: dict[bytes, None] = {}
    for name, syntax, page, expected in extruct_cases(repository):
        pages[page] = None
        row = rows.setdefault(syntax, [0] * 6)
        base = next((one for word, one in BASES.items() if word in name), BASE)
        found, other = ours(syntax, page, base), theirs(syntax, page, base)
        row[0] += 1
        row[1] += found == expected
        row[2] += other == expected
        row[3] += expected.total()
        row[4] += (found & expected).total()
        row[5] += (other & expected).total()
        if verbose and found != expected:
            _show(name, syntax, expected - found, found - expected)
    print("\nextruct's test cases      cases   right: Shoal  extruct      facts   found: Shoal  extruct")
    for syntax, row in rows.items():
        print(f"  {syntax:<22} {row[0]:>6} {row[1]:>14} {row[2]:>8} {row[3]:>10} {row[4]:>14} {row[5]:>8}")
    return list(pages)


def _show(name: str, syntax: str, missing: Facts, more: Facts) -> None:
    print(f"  {syntax} of {name}")
    for sign, some in (("-", missing), ("+", more)):
        for fact in list(some)[:20]:
            print(f"    {sign} {str(fact)[:180]}")


# -- schema.org's examples


def examples(repository: Repository) -> Iterator[tuple[str, dict[str, str]]]:
    releases = [name for name in repository.names("data/releases") if name.endswith("all-examples.txt")]
    newest = max(releases, key=lambda name: [int(part) for part in name.split("/")[2].split(".")])
    text = repository.read(newest).decode()
    for part in re.split(r"^TYPES:", text, flags=re.MULTILINE)[1:]:
        sections = re.split(r"^(PRE-MARKUP|MICRODATA|RDFA|JSON):\s*$", part, flags=re.MULTILINE)
        yield sections[0].strip()[:40], dict(zip(sections[1::2], sections[2::2], strict=True))


def compare_schemaorg(repository: Repository, verbose: bool) -> list[bytes]:
    table: dict[str, list[int]] = {name: [0] * 4 for name in ("json-ld", "microdata", "rdfa")}
    pages: list[bytes] = []
    made: Counter[str] = Counter()
    for name, sections in examples(repository):
        for section, syntax in (("JSON", "json-ld"), ("MICRODATA", "microdata"), ("RDFA", "rdfa")):
            html = sections.get(section, "").strip()
            if "<" not in html and "{" not in html:
                continue
            if syntax == "json-ld" and "<script" not in html:
                html = f'<script type="application/ld+json">{html}</script>'
            page = f"<!doctype html><title>x</title><body>{html}".encode()
            found, other = ours(syntax, page), theirs(syntax, page)
            if not found and not other:
                continue
            pages.append(page)
            row = table[syntax]
            row[0] += 1
            row[1] += found == other
            row[2] += bool(found)
            row[3] += bool(other)
            made.update(record["type"] for record in records(parse(page)[0], BASE))
            if verbose and found != other:
                _show(name, syntax, other - found, found - other)
    print("\nschema.org's examples   examples     the same   read: Shoal  extruct")
    for syntax, row in table.items():
        print(f"  {syntax:<20} {row[0]:>10} {row[1]:>12} {row[2]:>13} {row[3]:>8}")
    print("  records: " + ", ".join(f"{count} {kind}" for kind, count in made.most_common()))
    return pages


# -- price-parser's test cases


def compare_prices(repository: Repository, verbose: bool) -> None:
    module = types.ModuleType("cases")
    exec(compile(repository.read("tests/test_price_parsing.py"), "cases", "exec"), module.__dict__)
    from price_parser import Price

    table: dict[str, list[int]] = {}
    spent = [0.0, 0.0]
    for group in (name for name in vars(module) if name.startswith("PRICE_PARSING")):
        kind = "known to fail there" if "XFAIL" in group else "the others"
        for case in getattr(module, group):
            row = table.setdefault(kind, [0] * 4)
            began = time.process_time()
            other = Price.fromstring(case.price_raw, case.currency_raw, case.decimal_separator)
            between = time.process_time()
            found = parse_price(case.price_raw or "", case.currency_raw)
            spent[0] += time.process_time() - between
            spent[1] += between - began
            row[0] += 1
            amount = None if found is None else found.amount
            row[1] += amount == case.amount
            row[2] += other.amount == case.amount
            row[3] += (currency_right := _is_currency(case.currency, found and found.currency))
            if verbose and (amount != case.amount or not currency_right):
                print(
                    f"  {case.price_raw!r} ({case.currency_raw!r}): {case.currency} {case.amount}, not {found}"
                )
    print("\nprice-parser's cases       cases   amount right: Shoal  price-parser   our currency fits")
    for kind, row in table.items():
        print(f"  {kind:<22} {row[0]:>6} {row[1]:>20} {row[2]:>13} {row[3]:>19}")
    print(f"  CPU for all: {spent[0] * 1e3:.0f} ms, price-parser {spent[1] * 1e3:.0f} ms")


def _is_currency(expected: str | None, code: str | None) -> bool:
    """price-parser gives the sign as it is written, we the code that it may mean."""
    if expected is None:
        return True
    meanings = SIGNS.get(expected.casefold()) or SIGNS.get(expected.casefold().rstrip("."), ())
    return (code or "") in meanings


# -- CPU


def product_page(number: int) -> bytes:
    """A page of a shop as they are: 60 KB of markup, JSON-LD and OpenGraph, and microdata on every second one."""
    offer = {
        "@type": "Offer",
        "price": f"{number}.50",
        "priceCurrency": "EUR",
        "availability": "https://schema.org/InStock",
    }
    product = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": f"Lamp {number}",
        "offers": offer,
    }
    card = '<div class="card"><h3><a href="/item/{0}">Lamp {0}</a></h3><img src="/{0}.jpg"><p>from {0} €</p></div>\n'
    marked = (
        f'<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">Lamp {number}</h1></div>'
    )
    return (
        f'<!doctype html><html lang="de"><head><title>Lamp</title><meta property="og:title" content="Lamp {number}">'
        f'<script type="application/ld+json">{json.dumps(product)}</script></head><body>'
        + (marked if number % 2 else "")
        + "".join(card.format(n) for n in range(450))
    ).encode()


def compare_cpu(pages: list[bytes], rounds: int) -> None:
    import extruct

    def page_of(html: bytes) -> Page:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return Page(Task(url=BASE), Response(BASE, 200, headers, html), "h")

    def by_extruct(*syntaxes: str) -> Callable[[bytes], object]:
        return lambda page: _quietly(lambda: extruct.extract(page, base_url=BASE, syntaxes=list(syntaxes)))

    readers: dict[str, Callable[[bytes], object]] = {
        "page.data('product')": lambda page: page_of(page).data("product"),
        "of this, parsing": lambda page: page_of(page).tree,
        "extruct, the same syntaxes": by_extruct("json-ld", "microdata", "opengraph", "rdfa"),
        "extruct without RDFa": by_extruct("json-ld", "microdata", "opengraph"),
    }
    best = dict.fromkeys(readers, float("inf"))
    for _ in range(rounds):  # they take turns, so that a busy machine is the same for all
        for name, read in readers.items():
            began = time.process_time()
            for page in pages:
                read(page)
            best[name] = min(best[name], time.process_time() - began)
    mean = sum(map(len, pages)) / len(pages) / 1024
    print(f"\nCPU a page, parsing included ({len(pages)} pages, {mean:.0f} KB each)")
    least = best["page.data('product')"]
    for name, seconds in best.items():
        print(f"  {name:<28} {seconds / len(pages) * 1e3:>8.2f} ms {seconds / least:>7.1f} times")


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("extruct", "price-parser", "schemaorg"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="show what differs")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    shops = [product_page(number) for number in range(20)]
    sets = {"pages of shops": shops}
    if options.extruct:
        sets["extruct's pages"] = compare_extruct(Repository(options.extruct), options.verbose)
    if options.schemaorg:
        compare_schemaorg(Repository(options.schemaorg), options.verbose)
    if options.price_parser:
        compare_prices(Repository(options.price_parser), options.verbose)
    for name, pages in sets.items():
        print(f"\n{name}:", end="")
        compare_cpu(pages, options.rounds)


if __name__ == "__main__":
    sys.exit(main())

"""`shoal check`: what is wrong with a spider is told in one table, without a request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

Cli = Callable[..., tuple[int, str, str]]

GOOD = """
import os
from dataclasses import dataclass

from shoal import Request, Spider

TITLE = "h1"

@dataclass
class Book:
    upc: str
    title: str
    price: float = 0.0

spider = Spider("books", start=["https://books.test/", Request("https://books.test/all", "listing")], rate=1)
TOKEN = os.environ.get("BOOKS_TOKEN", "")

@spider.handler
def listing(page):
    yield from page.follow_all("h3 a", book)
    yield from page.paginate("li.next a")

@spider.handler(key="upc", item=Book)
def book(page):
    for row in page.css("table tr"):
        row.css_first("td")
    page.xpath("//p/text()"), page.xpath("./td")
    yield {"upc": page.attr("p", "id"), "title": page.text(TITLE)}
"""

LIST = "<h3><a href=x>x</a></h3><ul><li class=next><a href=2>next</a></ul>"
BOOK = "<h1>Title</h1><p id=7>text</p><table><tr><td>cell</table>"


@pytest.fixture
def checked(cli: Cli, tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Checks this code; answers the exit code and what was found."""

    def call(code: str, *argv: str) -> tuple[int, list[dict[str, Any]]]:
        (tmp_path / "books.py").write_text(code)
        status, out, err = cli("check", "books.py", "--json", *argv)
        assert err == ""
        return status, msgspec.json.decode(out)

    return call


def keep(tmp_path: Path, name: str, html: str) -> None:
    folder = tmp_path / "tests" / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.html").write_text(html)
    (folder / f"{name}.json").write_text('{"url": "https://books.test/"}')


def wrong(findings: list[dict[str, Any]], state: str = "wrong") -> list[tuple[str, str, str]]:
    return [(one["subject"], one.get("where", ""), one["found"]) for one in findings if one["state"] == state]


def test_a_spider_in_order(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(GOOD)
    keep(tmp_path, "list", LIST)
    keep(tmp_path, "book", BOOK)
    code, out, err = cli("check", "books.py", "--strict")
    assert (code, err) == (0, ""), out
    subjects = [line.split()[:2] for line in out.splitlines()[1:-1]]
    rows = ("loads", "settings", "start", "handlers", "keys", "schemas", "selectors", "secrets")
    assert subjects == [[name, "ok"] for name in rows]
    assert "8 of 8 selectors can be read, 8 find something on the 2 saved pages in tests/pages" in out
    assert out.splitlines()[-1].strip() == "nothing is wrong, 0 warnings"


HAS = "it has listing, book"
# What is replaced in the spider, by what, and what is told: its row, its place, and the words.
MISTAKES = [
    ("li.next a", "li > > a", "selectors", "books.py:21", "not a CSS selector: 'li > > a'"),
    ('TITLE = "h1"', 'TITLE = "h1::text"', "selectors", "books.py:28", "not a CSS selector: 'h1::text'"),
    ("//p/text()", "//p[", "selectors", "books.py:27", "not an XPath expression: '//p[' (Invalid expression)"),
    ('a", book)', 'a", "bok")', "handlers", "books.py:20", f"spider books has no handler 'bok'; {HAS}"),
    ('"listing")', '"gone")', "handlers", "books.py:15", f"spider books has no handler 'gone'; {HAS}"),
    ('a", book)', 'a", Book)', "handlers", "books.py:20", "Book is not a handler of spider books"),
    ('{"upc": page.attr("p", "id"), ', "{", "keys", "books.py:28",
     "the item has no 'upc', which is the key of handler book"),
    ('"title": page', '"titel": page', "schemas", "books.py:28", "Book has no field 'titel'"),
    ('key="upc"', 'key="isbn"', "keys", "books", "handler book: key='isbn' is no field of Book"),
    ("rate=1", "rate=-1", "settings", "books",
     "spider: rate: -1 is not allowed; rate must be a number, at least 0"),
    ("rate=1", "pool='eu'", "settings", "books", "pool: there is no pool 'eu'; proxies has direct"),
    ("https://books.test/all", "ftp://books.test/", "start", "books",
     "ftp://books.test/: refused (scheme), so a crawl would not fetch it"),
    ('os.environ.get("BOOKS_TOKEN", "")', '"hunter22"', "secrets", "books.py:16", "a value for TOKEN in the code"),
    ("rate=1", "headers={'Authorization': 'Basic aHVudGVyMjI='}", "secrets", "books.py:15",
     "a value for Authorization in the code"),
    ("import os\n", "import os, nothing_there\n", "loads", "",
     "books.py:2: ModuleNotFoundError: No module named 'nothing_there'"),
    ("@dataclass", "@dataclass(", "loads", "", "books.py:9: '(' was never closed"),
    ("rate=1", "user_agent='x\\ny'", "settings", "books",
     "spider: user_agent: its value has a line end, as text read from a file has one; no header may have that"),
    ('"listing")]', '"listing", meta={"n": 2**70})]', "start", "books",
     "https://books.test/all: its meta cannot be stored: can't serialize ints < -2**63 or > 2**64 - 1"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "subject", "where", "said"), MISTAKES)
def test_what_is_wrong_is_named_with_its_line(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
    tmp_path: Path,
    old: str,
    new: str,
    subject: str,
    where: str,
    said: str,
) -> None:
    assert old in GOOD
    code, found = checked(GOOD.replace(old, new))
    assert (subject, where, said.replace("{tmp}", str(tmp_path))) in wrong(found)
    assert code == 1
    assert "hunter22" not in str(found)
    assert "aHVudGVyMjI=" not in str(found)


def test_selectors_that_find_nothing_and_handlers_that_nothing_leads_to_are_warnings(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    keep(tmp_path, "list", LIST)
    code, found = checked(GOOD.replace('"h3 a", book', '"h3 a", listing'))
    assert code == 0
    assert ("handlers", "books", "no request leads to book") in wrong(found, "warning")
    lines = {where: text for subject, where, text in wrong(found, "warning") if subject == "selectors"}
    assert lines["books.py:28"].endswith("finds nothing on the saved page in tests/pages")
    assert checked(GOOD, "--strict")[0] == 1
    assert checked(GOOD, "--strict", "--pages", "elsewhere")[0] == 0


def test_code_beside_the_spider_is_looked_at_too(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    (tmp_path / "beside_the_books.py").write_text("def title(page):\n    return page.text('h1 >')\n")
    code, found = checked("import beside_the_books\n" + GOOD)
    assert code == 1
    assert ("selectors", "beside_the_books.py:2", "not a CSS selector: 'h1 >'") in wrong(found)


def test_code_that_is_nested_too_deeply_is_named(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    code, found = checked(GOOD + "total = " + " + ".join(["1"] * 2_000) + "\n")
    assert code == 0
    [(subject, where, _)] = wrong(found, "warning")
    assert (subject, where) == ("loads", "books.py")


def test_two_spiders_in_a_file_have_handlers_of_their_own(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    second = """
second = Spider("second", start="https://books.test/")

@second.handler
def other(page):
    yield page.follow("x", "book")
"""
    _, found = checked(GOOD + second)
    assert wrong(found) == [("handlers", "books.py:34", "spider second has no handler 'book'; it has other")]


def test_a_line_may_say_that_it_is_no_secret(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    assert checked(GOOD + "api_key = 'a-public-one'  # not a secret\n")[0] == 0
    assert checked(GOOD + "api_key = 'a-public-one'\n")[0] == 1


def test_a_field_with_a_default_may_be_a_key(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    assert checked(GOOD.replace('key="upc"', 'key=("upc", "price")'))[0] == 0


def test_a_dict_of_a_function_inside_a_handler_is_no_item(
    checked: Callable[..., tuple[int, list[dict[str, Any]]]],
) -> None:
    inside = "def book(page):\n    def options():\n        return {'colour': 'red'}\n"
    assert checked(GOOD.replace("def book(page):\n", inside))[0] == 0


# -- settings files


def test_a_settings_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text(
        'rate = 1\n[proxies]\neu = ["env:EU", "http://me:hunter22@p.test:80"]\n'
    )
    code, out, _ = cli("check", "shoal.toml", "--json")
    found = msgspec.json.decode(out)
    assert code == 1
    [(subject, where, said)] = wrong(found)
    assert (subject, where) == ("settings", "")
    assert "EU" in said
    assert ("secrets", "shoal.toml", "a password in a URL at proxies.eu") in wrong(found, "warning")
    assert "hunter22" not in out
    (tmp_path / "shoal.toml").write_text("rate = 1\n")
    assert cli("check", "shoal.toml", "--strict")[0] == 0
    (tmp_path / "shoal.toml").write_text("rats = 1\n")
    code, out, _ = cli("check", "shoal.toml")
    assert code == 1
    assert "did you mean 'rate'?" in out


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("missing.py", "there is no missing.py"),
        ("missing.toml", "no such file: missing.toml"),
        ("", "there is no ''"),
        (":spider", "there is no ':spider'"),
        ("no_such.module", "there is no no_such.module"),
        ("https://me:hunter22@a.test/", "https://a.test/ is a URL"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(cli: Cli, target: str, says: str) -> None:
    code, out, err = cli("check", target)
    assert (code, out) == (2, "")
    assert err.startswith(f"shoal: {says}")
    assert len(err.splitlines()) == 1


# -- spiders that a function makes

FACTORY = """
from shoal import Spider

def shop(category: str, limit: int = 10) -> Spider:
    spider = Spider("shop", start=f"https://shop.test/{category}")

    @spider.handler
    def listing(page):
        yield from page.follow_all("h3 a", item)

    @spider.handler(key="sku")
    def item(page):
        yield {"sku": page.text("h1")}

    return spider
"""


def test_a_function_that_makes_a_spider(
    cli: Cli, checked: Callable[..., tuple[int, list[dict[str, Any]]]], tmp_path: Path
) -> None:
    code, found = checked(FACTORY, "-a", "category=lamps")
    assert (code, wrong(found), wrong(found, "warning")) == (0, [], [])
    code, found = checked(
        FACTORY.replace('{"sku"', '{"id"').replace('a", item', "a\", 'itm'"), "-a", "category=x"
    )
    assert [(subject, where) for subject, where, _ in wrong(found)] == [
        ("handlers", "books.py:9"),
        ("keys", "books.py:13"),
    ]
    for words, says in ((["books.py"], "category"), (["books.py", "-a", "colour=red"], "colour")):
        code, out, err = cli("check", *words)
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.splitlines()) == 1

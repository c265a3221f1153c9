"""TOML files with spiders: what is wrong is told with its place, and templates make sites."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from shoal.errors import SpiderError, UsageError
from shoal.spider.declared.opening import declared_spider, declared_spiders, split_address
from shoal.spider.declared.positions import Positions
from shoal.spider.loading import load_all, load_spider
from shoal.testing.growth import seconds
from toml_tools import declared, problems, read

RIGHT = """start = "https://shop.example/"
[handler.listing]
follow.product = ".p a"
[handler.product.fields]
name = "h1"
"""


def wrong(text: str) -> list[str]:
    return problems(text)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ('price = { cs = ".p" }', '6:11: handler.product.fields.price: unknown key "cs"; did you mean "css"?'),
        ('price = { css = 5 }', "6:11: handler.product.fields.price.css: 5 is not allowed; it must be a text"),
        ('price = { css = ".p", type = "prise" }',
         '6:23: handler.product.fields.price.type: "prise" is not allowed; did you mean "price"?'),
        ('price = 5', "6:1: handler.product.fields.price: 5 is not allowed; it must be"),
        ('price = "p["', '6:1: handler.product.fields.price: not a CSS selector: "p["'),
        ('price = { css = "p::before" }', "there are no pseudo-elements but ::text and ::attr(name)"),
        ('price = ["a", "p["]', '6:15: handler.product.fields.price.1: not a CSS selector: "p["'),
        ('price = { xpath = "//p[" }', "6:11: handler.product.fields.price.xpath: not an XPath expression"),
        ('price = { json = "a..[" }', '6:11: handler.product.fields.price.json: not a JSON path: "a..["'),
        ('price = { css = "p", regex = "(" }', '6:22: handler.product.fields.price.regex: not a regular expr'),
        ('price = { css = "p", regex = "(a+)+" }', "something is repeated inside what is repeated"),
        ('price = { css = "p", meta = "x" }', "6:1: handler.product.fields.price: css and meta are different places"),
        ('price = { type = "int" }', "6:1: handler.product.fields.price: it says nowhere what to read"),
        ('price = { like = "nme" }', '6:11: handler.product.fields.price.like: unknown field "nme"; did you'),
        ('price = { css = "p", required = true, default = 1 }', "what has a default is never missing"),
        ('price = { css = "p", clean = ["lover"] }', '6:31: handler.product.fields.price.clean.0: "lover" is not'),
        ('price = { css = "p", clean = [{ cut = 1, join = "" }] }', "a cleaning step has one key"),
        ('price = { css = "p", format = "x" }', "it is for numbers, prices, dates and times"),
        ('price = { css = "p", type = "int", format = "x" }', "of a number it shows how 1234.56 is written"),
        ('price = { each = "p" }', "it has no fields to be read from each of them"),
        ('price = { each = "p", fields = { a = { xpath = "b" } } }', "each is a CSS selector here"),
        ('price = { data = ".price" }', "begins with no kind of record"),
        ('[handler.more]\nkey = "x"', "6:10: handler.more: it does nothing: give it fields, follow or next"),
        ('[handler.more]\nfollow = true', "6:10: handler.more: no page leads to it"),
        ('[handler.more]\nfollow.lister = "a"', '7:8: handler.more.follow.lister: unknown handler "lister"'),
        ('[handler.more]\nfollow.product = "a"\nmatch = "re:("', '8:1: handler.more.match: not a reg'),
        ('[handler.more]\nfields.a = "b"\nkey = ["c"]', '8:1: handler.more.key: unknown field "c"; there are a'),
        ('[handler.more]\nnext = { css = "a", json = "b" }', "css and json are different places: give one"),
        ('[handler.more]\nfollow.product = { json = "a", url = "/p" }', "7:32: handler.more.follow.product.url: it"),
        ('[handler.more]\npaginate = { param = "p" }', "it needs total, or count and per_page"),
        ('[handler.more]\npaginate = { total = 3 }', '7:1: handler.more.paginate: "param" is missing'),
        ('[handler."a.b"]\nfollow.product = "a"', "the name of a handler has letters, digits, _ and - only"),
        ('[hooks]\non_itm = "a:b"', '7:1: hooks: unknown key "on_itm"; did you mean "on_item"?'),
        ('[headers]\nAccept = 5', "6:2: headers: it must be a table of strings"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_line_and_column(added: str, said: str) -> None:
    found = [line for line in wrong(RIGHT + added) if said in line]
    assert [line[:11] for line in found] == ["shops.toml:"], wrong(RIGHT + added)


def test_schedules() -> None:
    for text, said in (
        ('every = "soon"\n', '1:1: every: "soon" is not a time'),
        ('cron = "30 4"\n', "1:1: cron: write five fields"),
        ('every = "1h"\ncron = "30 4 * * *"\n', "2:1: cron: give one of every and cron"),
    ):
        [line] = wrong(text + RIGHT)
        assert said in line
    assert declared('every = "1h"\n' + RIGHT).settings["every"] == "1h"


def test_everything_is_told_at_once() -> None:
    text = (
        RIGHT.replace('"h1"', '"h1["')
        + 'a = { cs = "x" }\nb = { css = "c", regex = "(" }\n[handler.product]\n'
    )
    text = text.replace("[handler.product]\n", "[handler.odd]\nkey = 5\n") + "rat = 1\n"
    said = wrong('rat = 3\nrate = "fast"\n' + text)
    assert [line.partition(" ")[0] for line in said] == [
        "shops.toml:1:1:", "shops.toml:2:1:", "shops.toml:7:1:", "shops.toml:8:7:", "shops.toml:9:18:",
        "shops.toml:11:1:", "shops.toml:12:1:",
    ]  # fmt: skip


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "shops.toml"
    for text, place in (
        ("a = ", "1:5"),
        ("a = 1\nb = [1,\n", "3:1"),
        ("\n\na = {", "3:6"),
        ('a = "x\n"', "1:7"),
    ):
        path.write_text(text)
        with pytest.raises(SpiderError, match=rf"shops.toml:{place}: not valid TOML"):
            declared_spider(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpiderError, match="is not UTF-8 text"):
        declared_spider(str(path))
    path.write_text("a = " + "[" * 5_000 + "]" * 5_000)
    with pytest.raises(SpiderError, match="nested too deeply"):
        declared_spider(str(path))


def test_a_settings_file_is_no_spider(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    path.write_text("rate = 5\n[headers]\nA = 'b'")
    with pytest.raises(
        SpiderError,
        match="holds settings and no spider: it has neither start nor handler; give",
    ):
        load_spider(str(path))


def test_positions_of_odd_toml() -> None:
    text = (
        'a.b."c d".e = 1 # "x = 3"\r\n[[t]]\nx = [1, {y = 2, "z\\u00e9".w = [[3], [ # ]\n 4]]}]\n'
        '[[t]]\nx = """\n[no]\n'
        "y = 1\"\"\"\n[ t . u ]\nk = 'a # b'\nd = 1979-05-27 07:32:00\ne = '''\n'q' = 1'''\n\"\\\"\" = {}\n"
    )
    places = Positions(text)

    def at(*path: str | int) -> tuple[int, int]:
        place = places.of(path)
        return place.line, place.column

    assert at("a", "b", "c d", "e") == (1, 11)
    assert at("t", 0, "x") == (3, 1)
    assert at("t", 0, "x", 1, "y") == (3, 10)
    assert at("t", 0, "x", 1, "zé", "w", 1, 0) == (4, 2)
    assert at("t", 1, "x") == (6, 1)
    assert at("t", 1, "u") == (9, 7)
    assert at("t", 1, "u", "d") == (11, 1)
    assert at("t", 1, "u", '"') == (14, 1)
    assert at("t", 1, "u", "none") == (9, 7)
    assert ("t", 1, "u", "y") not in places


SHOPS = """name = "shops"
rate = 1

[template.base.handler.product]
key = "sku"
[template.base.handler.product.fields]
sku = { css = ".sku", required = true }
price = { css = ".price", type = "price", attr = "content", clean = ["strip"] }
image = { css = "img", attr = "src" }

[template.shop]
use = "base"
depth = 3
[template.shop.handler.listing]
follow.product = ".card a"
next = ".next"

[site.lamps]
use = "shop"
start = "https://lamps.example/"
[site.lamps.handler.product.fields]
price = ".amount"
image = false
name = "h1"

[site."chairs.example"]
use = "shop"
start = ["https://chairs.example/list", { url = "https://chairs.example/p/1", handler = "product" }]
rate = 0.5
handler.listing.follow.product = ".tile a"
"""


def test_templates_are_merged_deeply() -> None:
    file = read(SHOPS)
    assert file.problems == []
    lamps, chairs = (file.sites[name] for name in ("lamps", "chairs.example"))
    fields = lamps.table.handler["product"].fields  # type: ignore[union-attr]
    assert list(fields) == ["sku", "price", "name"]
    price = fields["price"]
    assert (price.css, price.attr, price.type, price.clean) == (".amount", None, "price", ["strip"])  # type: ignore[union-attr]
    assert (lamps.settings, chairs.settings) == ({"rate": 1, "depth": 3}, {"rate": 0.5, "depth": 3})
    assert chairs.table.handler["listing"].next == ".next"  # type: ignore[union-attr]


def test_one_job_of_all_sites() -> None:
    spider = declared(SHOPS)
    assert spider.name == "shops"
    assert list(spider.handlers) == [
        "lamps.listing", "lamps.product", "chairs.example.listing", "chairs.example.product",
    ]  # fmt: skip
    assert spider.settings == {"rate": 1, "depth": 3, "host": {"chairs.example": {"rate": 0.5}}}
    assert [(one.url, one.handler) for one in spider.start] == [  # type: ignore[union-attr]
        ("https://lamps.example/", "lamps.listing"),
        ("https://chairs.example/list", "chairs.example.listing"),
        ("https://chairs.example/p/1", "chairs.example.product"),
    ]
    assert {handler.item for handler in spider.handlers.values()} == {"product", "listing"}


def test_one_site_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shops.toml"
    path.write_text(SHOPS)
    spider = load_spider(f"{path}:lamps")
    assert (spider.name, list(spider.handlers)) == ("shops.lamps", ["listing", "product"])
    with pytest.raises(SpiderError, match=r"no site 'lamp' in .*shops.toml; did you mean .*shops.toml:lamps"):
        load_spider(f"{path}:lamp")
    with pytest.raises(UsageError, match="is written in TOML, and takes no arguments"):
        load_spider(str(path), ["a=b"])


def test_a_worker_serves_the_whole_file_and_each_site(tmp_path: Path) -> None:
    path = tmp_path / "shops.toml"
    path.write_text(SHOPS)
    assert [one.name for one in declared_spiders(str(path))] == [
        "shops",
        "shops.lamps",
        "shops.chairs.example",
    ]
    (tmp_path / "pyproject.toml").write_text("[tool.x]\n")
    (tmp_path / "shoal.toml").write_text("rate = 1\n")
    assert list(load_all([str(tmp_path)])[0]) == ["shops", "shops.lamps", "shops.chairs.example"]


def test_what_cannot_differ_in_one_job_is_said() -> None:
    text = SHOPS + "max_pages = 5\n"
    [said] = wrong(text)
    assert said == (
        "shops.toml:31:1: site.chairs.example.max_pages: it differs between the sites, and holds for a whole job: "
        "write it at the top of the file, or crawl shops.toml:chairs.example alone"
    )
    with pytest.raises(SpiderError, match="it differs between the sites"):
        declared(text)
    assert declared(text, "chairs.example").settings["max_pages"] == 5


def test_templates_that_use_each_other_in_a_circle() -> None:
    circle = (
        '[template.a]\nuse = "b"\n[template.b]\nuse = ["c"]\n[template.c]\nuse = "a"\n[site.x]\nuse = "a"\n'
    )
    [said] = wrong(circle)
    assert said == "shops.toml:6:1: template.c.use: the templates use each other in a circle: a → b → c → a"
    [said] = wrong(SHOPS.replace('use = "shop"\nstart = "https', 'use = "shp"\nstart = "https'))
    assert said == 'shops.toml:19:1: site.lamps.use: unknown template "shp"; did you mean "shop"?'


def test_a_fault_of_a_template_is_told_once_and_there() -> None:
    [said] = wrong(SHOPS.replace('"img"', '"img["'))
    assert (
        said == 'shops.toml:9:11: template.base.handler.product.fields.image.css: not a CSS selector: "img["'
    )


@pytest.mark.parametrize(
    ("spec", "path", "site"),
    [
        ("a.toml", "a.toml", ""),
        ("x/a.toml:b.c", "x/a.toml", "b.c"),
        ("a.toml:ü", "a.toml", "ü"),
        ("a:b.toml:c", "a:b.toml", "c"),
    ],
)
def test_addresses(spec: str, path: str, site: str) -> None:
    assert split_address(spec) == (Path(path), site)


def test_names_with_colons_and_blanks_are_refused() -> None:
    for name in ("a:b", "a b", "a/b"):
        [said] = wrong(
            f'[site."{name}"]\nstart = "https://a.example/"\nhandler.x.follow = true\nhandler.x.match = "*"'
        )
        assert "the name of a site has no colon, slash or blank" in said
    assert (
        wrong('[site."läden.example"]\nstart = "https://a.example/"\nhandler."größe".fields."größe" = "h1"')
        == []
    )


# -- attacks


def test_a_hundred_thousand_fields_would_take_seconds() -> None:
    """What a tenth of them takes, and that it grows with their number."""

    def declare(text: bytes) -> None:
        assert len(declared(text.decode()).handlers) == 1

    def fields(number: int) -> bytes:
        lines = "\n".join(f'f{i} = {{ css = ".f{i % 100}", type = "int" }}' for i in range(number))
        return f'start = "https://a.example/"\n[handler.x.fields]\n{lines}\n'.encode()

    seconds(declare, fields(100))
    most = seconds(declare, fields(10_000))
    assert most < 10
    assert most < 8 * max(seconds(declare, fields(2_500)), 0.01)


def test_places_are_found_in_linear_time() -> None:
    def seconds(number: int) -> float:
        text = "\n".join(f'[site.s{i}]\na = "x"\n"b c".d = [1, {{e = "f"}}]' for i in range(number))
        began = time.process_time()
        assert Positions(text).of(("site", f"s{number - 1}", "b c", "d", 1, "e")).line == number * 3
        return time.process_time() - began

    def least(number: int) -> float:
        return min(seconds(number) for _ in range(3))

    seconds(100)
    assert least(8_000) < 20 * max(least(1_000), 0.001)


def test_templates_in_a_long_row() -> None:
    rows = "".join(f'[template.t{i}]\nuse = "t{i + 1}"\n' for i in range(300))
    text = f'{rows}[template.t300]\nstart = "https://a.example/"\nhandler.x.fields.n = "h1"\n[site.s]\nuse = "t0"\n'
    assert list(declared(text).handlers) == ["s.x"]


# -- sitemaps, routes


class FakeSitemap:
    """What `shoal.Sitemap` takes."""

    def __init__(self, url: str, *, include: object, exclude: object, since: object, handler: object) -> None:
        self.given = (url, include, exclude, since, handler)


def test_sitemaps_take_what_fits_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    import shoal

    monkeypatch.setattr(shoal, "Sitemap", FakeSitemap, raising=False)
    spider = declared(
        'sitemap = ["https://a.example/sitemap.xml", { url = "https://a.example/s2.xml", since = "last", '
        'handler = "news" }]\n'
        'exclude = "*.pdf"\n[handler.product]\nmatch = ["/p/*", "re:id=[0-9]+"]\nfields.name = "h1"\n'
        '[handler.news]\nmatch = "/news/*"\nfields.title = "h1"'
    )
    first, second = (one.given for one in spider.start)  # type: ignore[union-attr]
    assert second == ("https://a.example/s2.xml", [], first[2], "last", "news")
    assert list(first[4].values()) == ["product", "product", "news"]
    [include], [exclude] = first[1], first[2]
    urls = [
        "https://a.example/p/1?x=2",
        "https://a.example/x?id=7",
        "https://a.example/news/a",
        "https://a.example/about",
    ]
    assert [bool(re.search(include, url)) for url in urls] == [True, True, True, False]
    assert re.search(exclude, "https://a.example/p/1.pdf?download=1")
    assert [spider.route(url, None) for url in urls] == ["product", "product", "news", "product"]  # type: ignore[misc]


def test_routes_of_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("https://b.example/p/1\n")
    text = (
        '[site.a]\nstart = "https://a.example/"\nhandler.product = { match = "/p/*", fields = { n = "h1" } }\n'
        '[site.b]\nstart = { file = "urls.txt" }\nhosts = ["b.example"]\n'
        'handler.item = { match = "/p/*", fields = { n = "h1" } }\n'
    )
    path = tmp_path / "shops.toml"
    path.write_text(text)
    spider = load_spider(str(path))
    assert spider.route is not None
    assert spider.route("https://a.example/p/1", None) == "a.product"
    assert spider.route("https://www.b.example/p/1", None) == "b.item"
    assert spider.route("https://elsewhere.example/p/1", tmp_path / "urls.txt") == "b.item"
    assert spider.route("https://elsewhere.example/p/1", None) == ""
    assert set(spider.settings["hosts"]) == {"a.example", "b.example"}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("pattern", "url", "fits"),
    [
        ("/p/*", "https://a.example/p/1", True),
        ("/p/*", "https://a.example/x/p/1", False),
        ("/p/*", "https://a.example/p/1?page=2#x", True),
        ("/list", "https://a.example/list?page=2", True),
        ("/list?page=*", "https://a.example/list?page=2", True),
        ("/list?page=*", "https://a.example/list", False),
        ("a.example/p/*", "https://a.example/p/1", True),
        ("a.example/p/*", "https://b.example/p/1", False),
        ("https://a.example/*", "http://a.example/p", False),
        ("*/p/*", "https://a.example/x/p/1", True),
        ("*.html", "https://a.example/x/p.html?x=1", True),
        ("re:/p/[0-9]+$", "https://a.example/p/12", True),
        ("re:^https", "http://a.example/p/12", False),
        ("/a*b*c", "https://a.example/a-b-b-c", True),
        ("/", "https://a.example/", True),
        ("/", "https://a.example", True),
    ],
)
def test_url_patterns(pattern: str, url: str, fits: bool) -> None:
    import re

    from shoal.spider.declared.url_patterns import url_pattern

    made = url_pattern(pattern)
    assert made.fits(url) is fits
    assert bool(re.search(made.source, url)) is fits or url == "https://a.example"


def test_patterns_with_many_stars_are_quick() -> None:
    from shoal.spider.declared.url_patterns import url_pattern

    began = time.process_time()
    assert not url_pattern("/" + "a*" * 50 + "b").fits("https://a.example/" + "a" * 5_000)
    assert time.process_time() - began < 1

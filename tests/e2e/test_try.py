"""`shoal try`: one handler on one page."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from shoal.cli import main
from shoal.fetch.browser.executable import available, why_not
from shoal.settings import Settings
from visited_site import VisitedSite, visited_site

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
import msgspec
from shoal import Drop, Spider

spider = Spider("shop", start=START, rate=0)

class Lamp(msgspec.Struct):
    name: str
    price: float

@spider.handler
def listing(page):
    page.log.info("a listing")
    print("printed")
    for link in page.css("a.lamp"):
        yield {"name": link.text(), "stock": page.text(".none")}
        yield page.follow(link, lamp)
    yield from page.follow_all("a.more", listing)
    page.count("lamps", 2)

@spider.handler(item=Lamp, key="name")
def lamp(page):
    yield {"name": page.text("h1"), "price": page.text("b")}

@spider.handler
async def inner(page):
    other = await page.fetch("/lamp/2")
    yield {"name": other.text("h1"), "cached": other.cached}

@spider.handler
def broken(page):
    for value in [1, page.text("h1")]:
        yield {"number": int(value)}

@spider.handler(files=["sheet"])
def filed(page):
    yield {"sheet": "/sheet.pdf"}

@spider.handler
def bare(page):
    yield {}

@spider.handler
def empty(page):
    raise Drop("sold out")

@spider.handler
def busy(page):
    import os, signal, time
    os.kill(os.getpid(), signal.SIGINT)
    while time.process_time() < 60:
        pass
    yield {}
"""
LISTING = """
<a class=lamp href=/lamp/1>One</a> <a class=lamp href=/lamp/2>Two</a>
<a class=more href=/>home</a> <a class=more href="mailto:a@b.example">m</a> <a class=more href=https://other.example/>o</a>
<a class=more href=/old>old</a>
"""


@pytest.fixture(scope="module")
def the_site() -> Iterator[VisitedSite]:
    with visited_site() as site:
        site.pages = {
            "/": LISTING,
            "/lamp/1": "<h1>One</h1><b>12.5</b>",
            "/lamp/2": "<h1>Two</h1><b>dear</b>",
            "/old": (302, {"Location": "/lamp/1"}, b""),
            "/members": (302, {"Location": "/login"}, b""),
            "/login": "<h1>Käse €</h1><form><input type=password></form>",
        }
        yield site


@pytest.fixture
def site(the_site: VisitedSite, cli: Cli) -> VisitedSite:
    the_site.visits()
    Path("shop.py").write_text(SPIDER.replace("START", repr(f"{the_site.url}/")))
    return the_site


def test_the_start_page(cli: Cli, site: VisitedSite) -> None:
    code, out, err = cli("try", "shop.py")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["200", "GET", f"{site.url}/"]
    assert "fetched now" in out.splitlines()[0]
    assert ["name", "stock"] in lines
    assert "empty in all 2 items: stock" in out
    assert "3 admitted, 1 duplicate, 2 refused (host 1 · scheme 1)" in out
    assert ["admitted", "lamp", "/lamp/2"] in lines
    assert ["refused:", "host", "listing", "https://other.example/"] in lines
    assert ["counted", "lamps", "2"] in lines
    assert "listing  2 items, 3 new requests" in out
    assert "shop.listing: a listing" in err
    assert "printed" in err


def test_a_page_is_fetched_once(cli: Cli, site: VisitedSite) -> None:
    cli("try", "shop.py")
    assert site.visits() == ["/"]
    code, out, _ = cli("try", "shop.py")
    assert code == 0
    assert "from the cache" in out.splitlines()[0]
    assert Path(".shoal/.gitignore").read_text() == "*\n"
    cli("try", "shop.py", "--offline")
    assert site.visits() == []
    cli("try", "shop.py", "--refresh")
    cli("try", "shop.py", "--no-cache")
    assert site.visits() == ["/", "/"]


def test_a_handler_without_a_page(cli: Cli, site: VisitedSite) -> None:
    """Its page is the first that the start leads to."""
    code, out, _ = cli("try", "shop.py", "--handler", "lamp", "--json")
    tried = json.loads(out)
    assert code == 0
    assert tried["url"] == f"{site.url}/lamp/1"
    assert tried["rows"] == [{"item": "lamp", "row": {"name": "One", "price": 12.5}}]
    assert site.visits() == ["/", "/lamp/1"]
    # The page is remembered with its handler.
    _, out, _ = cli("try", "shop.py", f"{site.url}/lamp/1", "--json")
    assert json.loads(out)["handler"] == "lamp"


def test_a_handler_that_others_lead_to(cli: Cli, site: VisitedSite) -> None:
    """One page of each handler on the way."""
    Path("deep.py").write_text(
        "from shoal import Spider\n"
        f"spider = Spider('deep', start='{site.url}/')\n"
        "@spider.handler\n"
        "def a(page):\n    yield from page.follow_all('a.lamp', 'b')\n"
        "@spider.handler\n"
        "def b(page):\n    yield page.follow('/lamp/2', 'c')\n    yield page.follow('/', 'a')\n"
        "@spider.handler\n"
        "def c(page):\n    yield {'name': page.text('h1')}\n"
        "@spider.handler\n"
        "def d(page):\n    yield {}\n"
    )
    code, out, _ = cli("try", "deep.py", "--handler", "c", "--json")
    assert (code, json.loads(out)["rows"]) == (0, [{"item": "c", "row": {"name": "Two"}}])
    assert site.visits() == ["/", "/lamp/1", "/lamp/2"]
    code, _, err = cli("try", "deep.py", "--handler", "d")
    assert (code, site.visits()) == (1, [])
    assert "'a' and 'b' and 'c' yield no request that 'd' would get; give a URL" in err


def test_meta_comes_as_a_crawl_would_give_it(cli: Cli, site: VisitedSite) -> None:
    """As the store gives it back: a handler that works here must work there."""
    Path("dated.py").write_text(
        "import datetime\nfrom shoal import Request, Spider\n"
        "day, pair = datetime.date(2031, 5, 30), (1, 2)\n"
        f"spider = Spider('dated', start=[Request('{site.url}/', meta={{'day': day}})], rate=0)\n"
        "@spider.handler\n"
        "def a(page):\n"
        "    page.log.info(repr(page.meta))\n"
        "    yield page.follow('/lamp/2', 'b', meta={'day': day, 'pair': pair, 'sizes': {38: 'here', None: 0}})\n"
        "@spider.handler\n"
        "def b(page):\n    yield {'meta': repr(page.meta)}\n"
    )
    meta = "{'day': '2031-05-30', 'pair': [1, 2], 'sizes': {38: 'here', None: 0}}"
    code, out, _ = cli("try", "dated.py", "--handler", "b", "--json")
    assert (code, json.loads(out)["rows"]) == (0, [{"item": "b", "row": {"meta": meta}}])
    code, _, err = cli("try", "dated.py", "--handler", "a")
    assert (code, "{'day': '2031-05-30'}" in err) == (0, True)
    code, _, _ = cli("crawl", "dated.py", "-o", "rows.jsonl")
    assert (code, json.loads(Path("rows.jsonl").read_text())) == (0, {"meta": meta})


def test_a_start_that_cannot_be_stored_is_told(cli: Cli, site: VisitedSite) -> None:
    Path("odd.py").write_text(
        "from shoal import Request, Spider\n"
        f"spider = Spider('odd', start=[Request('{site.url}/', meta={{'n': object()}})])\n"
        "@spider.handler\ndef a(page):\n    yield {}\n"
    )
    code, _, err = cli("try", "odd.py")
    said = "a request cannot be stored: its meta cannot be stored: "
    assert (code, said in err, err.count("\n"), site.visits()) == (2, True, 1, [])


def test_a_schema_rejects_an_item(cli: Cli, site: VisitedSite) -> None:
    code, out, _ = cli("try", "shop.py", f"{site.url}/lamp/2", "--handler", "lamp")
    assert code == 1
    assert "(field price)" in out
    assert '{"name":"Two","price":"dear"}' in out
    assert "yields nothing but 1 rejected item" in out


def test_requests_inside_a_handler_use_the_cache(cli: Cli, site: VisitedSite) -> None:
    for cached in (False, True):
        code, out, _ = cli("try", "shop.py", f"{site.url}/old", "--handler", "inner", "--json")
        assert code == 0
        assert json.loads(out)["rows"] == [{"item": "inner", "row": {"name": "Two", "cached": cached}}]
    assert site.visits() == ["/old", "/lamp/1", "/lamp/2"]


def test_what_a_person_can_get_wrong(cli: Cli, site: VisitedSite) -> None:
    code, out, _ = cli("try", "shop.py", f"{site.url}/lamp/1", "--handler", "broken")
    assert code == 1
    assert "ValueError: invalid literal for int() with base 10: 'One'" in out
    assert 'yield {"number": int(value)}' in out  # the line of the user's code
    assert "items before it failed  1" in out
    assert "handling.py" not in out
    code, out, _ = cli("try", "shop.py", f"{site.url}/lamp/1", "--handler", "bare")
    assert (code, "1 item," in out) == (0, True)
    code, out, _ = cli("try", "shop.py", f"{site.url}/lamp/1", "--handler", "empty")
    assert code == 1
    assert "pages dropped (sold out)" in out
    assert "yields nothing" in out
    code, _, err = cli("try", "shop.py", f"{site.url}/gone")
    assert (code, err.count("\n")) == (1, 1)
    assert "status 404" in err
    code, _, err = cli("try", "shop.py", f"{site.url}/new", "--offline")
    assert (code, err.count("\n")) == (1, 1)
    assert "not in the cache" in err
    for words in (
        ["shop.py", "--handler", "nobody"],
        ["nowhere.py"],
        ["https://shop.example/"],
        ["shop.py", "--cache", "pages", "--no-cache"],
        ["shop.py", "--offline", "--refresh"],
        ["shop.py", "ftp://shop.example/"],
        ["shop.py", "nowhere.html"],
        ["shop.py", "tests/pages/nowhere.html"],
        ["shop.py", "./nowhere"],
    ):
        code, _, err = cli("try", *words)
        assert (code, err.count("\n")) == (2, 1), words


def test_ctrl_c_ends_a_handler_that_computes(cli: Cli, site: VisitedSite) -> None:
    code, _, _ = cli("try", "shop.py", "--handler", "busy", f"{site.url}/lamp/1")
    assert code == 130


def test_a_page_that_a_crawl_takes_for_no_page(cli: Cli, site: VisitedSite) -> None:
    code, out, _ = cli("try", "shop.py", "--handler", "broken", f"{site.url}/members")
    assert code == 1
    assert "login wall: redirected to /login; a crawl gives it to no handler" in out


def test_a_terminal_without_unicode(cli: Cli, site: VisitedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*options: str) -> str:
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
        with pytest.raises(SystemExit) as end:
            main(["try", "shop.py", "--handler", "bare", f"{site.url}/login", *options])
        assert end.value.code == 0
        sys.stdout.flush()
        return written.getvalue().decode("ascii")

    Path("shop.py").write_text(
        Path("shop.py").read_text().replace("yield {}\n", 'yield {"h1": page.text("h1")}\n', 1)
    )
    assert r"K\xe4se \u20ac" in printed()
    assert json.loads(printed("--json"))["rows"][0]["row"] == {"h1": "Käse €"}


def test_a_saved_page(cli: Cli, site: VisitedSite) -> None:
    Path("lamp.html").write_text("<h1>Saved</h1><a class=lamp href=/lamp/9>nine</a>")
    code, out, _ = cli("try", "shop.py", "lamp.html", "--json")
    tried = json.loads(out)
    assert code == 0
    assert (tried["from"], tried["url"]) == ("file", f"{site.url}/")  # it does not say where it is from
    assert [one["url"] for one in tried["requests"]] == [f"{site.url}/lamp/9"]
    assert site.visits() == []


def test_private_addresses_that_nobody_typed(cli: Cli, site: VisitedSite) -> None:
    """A page may not send a handler to other private addresses, whether by `page.fetch` or by its links."""
    elsewhere = site.url.replace("127.0.0.1", "127.0.0.2")
    Path("sent.py").write_text(
        f"""
from shoal import Spider
spider = Spider("sent", start={site.url + "/"!r}, rate=0, any_host=True, robots=False)

@spider.handler
def start(page):
    yield page.follow({elsewhere + "/lamp/1"!r}, inner)

@spider.handler
async def inner(page):
    yield {{"name": (await page.fetch({elsewhere + "/lamp/2"!r})).text("h1")}}
"""
    )
    code, out, _ = cli("try", "sent.py", f"{site.url}/lamp/1", "--handler", "inner")
    assert code == 1
    assert "forbidden_address" in out
    code, _, err = cli("try", "sent.py", "--handler", "inner")
    assert code == 1
    assert "forbidden_address" in err
    assert site.visits() == ["/lamp/1", "/"]


def test_a_page_that_is_open_in_a_browser(cli: Cli, site: VisitedSite) -> None:
    """One from the cache is not open: it is fetched again, if the handler clicks."""
    if not available(Settings()):
        pytest.skip(why_not(Settings()))  # under CI that is a failure
    Path("app.py").write_text(
        f"""
from shoal import Spider
spider = Spider("app", start={site.url + "/app"!r}, rate=0, robots=False, browser_wait="load")

@spider.handler(lane="browser")
async def app(page):
    await page.click("button")
    yield {{"said": page.text("h1")}}
"""
    )
    site.pages["/app"] = (
        "<h1>-</h1><button onclick=\"document.querySelector('h1').textContent='clicked'\">x</button>"
    )
    for _ in range(2):
        code, out, err = cli("try", "app.py", "--json")
        assert code == 0, err
        assert json.loads(out)["rows"] == [{"item": "app", "row": {"said": "clicked"}}]
    assert site.visits().count("/app") == 2


WATCHED = """
from shoal import Spider
from names import SELECTOR

spider = Spider("shop", start=START, rate=0)

@spider.handler
def listing(page):
    with open("runs.txt", "a") as runs:
        runs.write(page.text(SELECTOR) + "\\n")
    yield {"lamp": page.text(SELECTOR)}
"""


def test_watch(cli: Cli, site: VisitedSite) -> None:
    """It runs again when the spider or what it imports is saved, also after one that cannot be loaded."""
    code = WATCHED.replace("START", repr(f"{site.url}/"))
    runs = Path("runs.txt").absolute()
    runs.touch()
    Path("shop.py").write_text(code)
    names = Path("names.py").absolute()
    names.write_text("SELECTOR = '.lamp'")
    spider = Path("shop.py").absolute()
    failing = "with open('runs.txt', 'a') as runs:\n    runs.write('failed\\n')\n1 / 0"
    # The last one stands for Ctrl-C: a signal could hit any line.
    edits = [
        (names, "SELECTOR = '.more'"),
        (spider, failing),
        (spider, code),
        (spider, "raise KeyboardInterrupt"),
    ]

    def edit() -> None:
        for number, (path, text) in enumerate(edits, 1):
            while len(runs.read_text().splitlines()) < number and not ended.is_set():
                time.sleep(0.01)
            new = path.with_suffix(".new")  # nobody sees half of it
            new.write_text(text)
            new.replace(path)

    ended = Event()
    editor = Thread(target=edit)
    editor.start()
    exit_code, out, err = cli("try", "shop.py", "--watch")
    ended.set()
    editor.join()
    assert exit_code == 0, err
    assert runs.read_text().split() == ["One", "home", "failed", "home"]
    assert "names.py was saved" in err
    assert "ZeroDivisionError" in err
    assert out.count("1 item,") == 3
    assert site.visits() == ["/"]


def test_a_crawl_takes_what_was_tried(cli: Cli, site: VisitedSite) -> None:
    cli("try", "shop.py")
    cli("try", "shop.py", f"{site.url}/old")
    site.visits()
    code, _, _ = cli("crawl", "shop.py", "--cache", ".shoal/pages", "-q")
    assert code == 0
    assert site.visits() == ["/lamp/2"]


def test_a_cached_page_imports_nothing_that_fetches(cli: Cli, site: VisitedSite) -> None:
    """Otherwise it would take twice as long."""
    cli("try", "shop.py")
    code = (
        "import sys; from shoal.cli import run; assert run(['try', 'shop.py', '--offline']) == 0;"
        "assert run(['try', 'shop.py', '--offline', '--handler', 'filed', 'START']) == 0;"
        "assert not {'aiohttp', 'asyncpg', 'redis', 'shoal.engine.inner_fetch'} & set(sys.modules)"
    )
    code = code.replace("START", f"{site.url}/")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

"""`shoal shell`: Python with a page, which is fetched once."""

from __future__ import annotations

import signal
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from shoal.cli.shell import read_words
from shoal.fetch.browser.executable import available, why_not
from shoal.settings import Settings
from terminal import DEADLINE, SHOAL, Terminal
from visited_site import VisitedSite, visited_site

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Page, Spider

spider = Spider("shop", start="{url}/")
currency = "EUR"
page = "a name that the shell has, too"


@spider.handler
def listing(page: Page):
    yield from page.follow_all("li a", lamp)


@spider.handler(key="name")
async def lamp(page: Page):
    stock = await page.fetch("/stock")
    yield {{"name": page.text("h1"), "stock": stock.text()}}


@spider.handler
def endless(page: Page):
    print("begun")
    while True:
        pass


@spider.handler
def stops(page: Page):
    breakpoint()
    yield {{"stopped": True}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[VisitedSite]:
    with visited_site() as site:
        site.pages = {
            "/": "<h1>Lamps</h1><ul><li><a href='/lamp'>Lamp</a><li><a href='/other'>Other</a></ul>",
            "/lamp": "<h1>Lamp</h1><a class=up href='/'>up</a>",
            "/stock": "7",
        }
        (tmp_path / "shop.py").write_text(SPIDER.format(url=site.url))
        yield site


@pytest.fixture
def run(cli: Cli) -> Callable[..., list[str]]:
    """Runs code in a shell; answers the lines that are shown."""

    def run(code: str, *words: str) -> list[str]:
        exit_code, out, err = cli("shell", *words, "-c", code)
        assert (exit_code, err) == (0, "")
        return out.splitlines()

    return run


Run = Callable[..., list[str]]


def test_looking_into_a_page(run: Run, site: VisitedSite) -> None:
    shown = run(
        'page.text("h1")\ncss("li a")\nxpath("//li/a/text()")\ncss("b")\nlen(css("li"))', f"{site.url}/"
    )
    assert shown == [
        "'Lamps'",
        '  0  <a href="/lamp">Lamp</a>',
        '  1  <a href="/other">Other</a>',
        "  0  'Lamp'",
        "  1  'Other'",
        "[]  nothing matches",
        "2",
    ]


def test_a_page_is_fetched_once(run: Run, cli: Cli, site: VisitedSite) -> None:
    run("page", f"{site.url}/lamp")
    assert site.visits() == ["/lamp"]
    assert run("page.cached", f"{site.url}/lamp") == ["True"]
    assert run("page.cached", f"{site.url}/lamp", "--offline") == ["True"]
    assert site.visits() == []
    assert run("page.cached", f"{site.url}/lamp", "--refresh") == ["False"]
    assert run("fetch(page.url, refresh=True).cached", f"{site.url}/lamp") == ["False"]
    assert run("page.cached", f"{site.url}/lamp", "--no-cache") == ["False"]
    assert site.visits() == ["/lamp", "/lamp", "/lamp"]
    code, out, err = cli("shell", f"{site.url}/stock", "--offline", "-c", "page")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert site.visits() == []


def test_other_pages(run: Run, site: VisitedSite) -> None:
    """By selector, element, relative URL, request and absolute URL; with and without await."""
    shown = run(
        'follow("li a")\npage.url\n'
        'fetch(css("a.up")[0]).url\n'
        'await follow("/lamp")\npage.url\n'
        'fetch(page.follow("/stock")).url\npage.text()\n'
        f'page = await fetch("{site.url}/")\npage.text("h1")',
        f"{site.url}/",
    )
    url = site.url
    assert shown == [
        f"<Page 200 {url}/lamp (40 bytes, depth 0)>",
        f"'{url}/lamp'",
        f"'{url}/'",
        f"<Page 200 {url}/lamp (40 bytes, depth 0)>",
        f"'{url}/lamp'",
        f"'{url}/stock'",
        "'7'",
        "'Lamps'",
    ]
    assert site.visits() == ["/", "/lamp", "/stock"]


def test_handlers_run_on_the_page(run: Run, site: VisitedSite) -> None:
    """As a crawl would run them, requests inside them too; what the spider's file defines is there."""
    shown = "\n".join(
        run(
            'listing()\nfollow("li a")\nlamp()\nlamp().rows\n[*lamp()]\nlen((await lamp()).items)\n'
            "currency\nspider\npage\nhandlers['lamp']",
            "shop.py",
        )
    )
    assert "listing  0 items, 2 new requests" in shown
    assert "lamp  1 item, 0 new requests" in shown
    values = shown.rpartition("0 new requests")[2].splitlines()[1:]
    row = "{'name': 'Lamp', 'stock': '7'}"
    assert values == [
        f"[{row}]",
        f"[{row}]",
        "1",
        "'EUR'",
        "<Spider 'shop': listing, lamp, endless, stops>",
        f"<Page 200 {site.url}/lamp (40 bytes, depth 0)>",
        "<handler lamp: call lamp(), or lamp(page)>",
    ]
    assert site.visits() == ["/", "/lamp", "/stock"]


def test_a_request_of_a_handler_is_fetched(run: Run, site: VisitedSite, tmp_path: Path) -> None:
    """With its handler and its meta, as a crawl would give them."""
    (tmp_path / "shop.py").write_text(
        "import datetime\nfrom shoal import Spider\n"
        f"spider = Spider('shop', start='{site.url}/')\n"
        "@spider.handler\ndef listing(page):\n"
        "    yield page.follow('lamp', lamp, meta={'day': datetime.date(2031, 5, 30)})\n"
        "    yield page.follow('http://other.test/')\n"
        "@spider.handler\ndef lamp(page):\n    yield page.meta\n"
    )
    shown = run(
        "r = listing()\nfetch(r.requests[0])\npage.meta\npage.handler\nlamp().rows\n"
        "fetch(next(iter(r))).meta\nr.requests[1].verdict",
        "shop.py",
    )
    meta = "{'day': '2031-05-30'}"
    assert shown == [
        f"<Page 200 {site.url}/lamp (40 bytes, depth 0)>", meta, "'lamp'", f"[{meta}]", meta, "'refused'",
    ]  # fmt: skip


def test_an_edit_takes_effect(run: Run, site: VisitedSite, tmp_path: Path) -> None:
    edit = "import pathlib; file = pathlib.Path('shop.py')\nfile.write_text(file.read_text().replace('h1', '.up'))"
    shown = run(f"_ = lamp().rows\n{edit}\nreload()\nlamp().rows", "shop.py", f"{site.url}/lamp")
    assert shown[-1] == "[{'name': 'up', 'stock': '7'}]"


def test_a_saved_page(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lamp.html").write_text("<h1>Saved</h1>")
    (tmp_path / "lamp.json").write_text('{"url": "https://shop.example/lamp"}')
    assert run('page.text("h1")\npage.url', "lamp.html") == ["'Saved'", "'https://shop.example/lamp'"]


def test_a_page_as_a_job_kept_it(run: Run, cli: Cli, site: VisitedSite) -> None:
    code, _, err = cli("crawl", "shop.py", "--archive", "kept", "-q", "--rate", "0")
    assert code == 0, err
    site.visits()
    site.pages["/lamp"] = "<h1>Changed</h1>"
    assert run('page.text("h1")', "shop", f"{site.url}/lamp") == ["'Lamp'"]
    assert run("lamp().rows", "shop", f"{site.url}/lamp", "shop.py")[-1] == "[{'name': 'Lamp', 'stock': '7'}]"
    assert site.visits() == []
    code, _, err = cli("shell", "shop", f"{site.url}/never", "-c", "page")
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{site.url}/never" in err


def test_the_browser_shows_the_page(run: Run, site: VisitedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "_tryorder", ["true %s"])
    [shown] = run('view().read_text("utf-8-sig").count("<h1>Lamps</h1>")', f"{site.url}/")
    assert shown == "1"


# -- the words


def test_a_job_and_a_spider_of_the_same_name(site: VisitedSite, cli: Cli) -> None:
    url = site.url
    assert read_words(["shop", url]) == ("shop", url, None)
    assert read_words(["shop", url, "shop.py"]) == ("shop", url, "shop.py")
    assert read_words(["shop.py", "shop", url]) == ("shop", url, "shop.py")
    assert read_words([url, "shop"]) == ("", url, "shop")
    assert read_words(["shop"]) == ("", "", "shop")
    assert read_words(["page.html", "shop.py:spider"]) == ("", "page.html", "shop.py:spider")
    assert read_words([]) == ("", "", None)


# -- what goes wrong


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ftp://a.example"], "only http and https"),
        (["missing.py"], "missing.py"),
        (["shop.py", "other.py"], "give one"),
        (["a", "b", "c"], "JOB URL"),
        (["a.example", "-a", "x=1"], "-a is for a spider"),
        (["a.example", "--offline", "--refresh"], "leave one of them out"),
        (["nojob", "http://a.example/"], "there is no store"),
    ],
)
def test_wrong_words(cli: Cli, words: list[str], says: str) -> None:
    code, out, err = cli("shell", *words, "-c", "page")
    assert (code, out, len(err.splitlines())) == (3 if "nojob" in words else 2, "", 1)
    assert says in err


def test_a_job_without_an_archive(cli: Cli, site: VisitedSite) -> None:
    cli("crawl", "shop.py", "-q", "--rate", "0")
    code, _, err = cli("shell", "shop", f"{site.url}/", "-c", "page")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "keeps no pages" in err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("css('h1')", 'UsageError: there is no page yet: fetch("https://…") gets one'),
        ("fetch('ftp://a.example/')", "UrlError: ftp://a.example/: only http and https can be crawled"),
        ("1 +", "SyntaxError: invalid syntax"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("await 3", "TypeError: object int can't be used in 'await' expression"),
    ],
)
def test_errors_are_those_of_whoever_types(cli: Cli, code: str, said: str) -> None:
    exit_code, out, err = cli("shell", "-c", f"{code}\nprint('not reached')")
    assert (exit_code, out) == (1, "")
    assert err.splitlines()[-1] == said
    assert "site-packages" not in err
    assert "consoles.py" not in err


# -- at a prompt


def test_the_plain_prompt(site: VisitedSite, tmp_path: Path) -> None:
    with Terminal([*SHOAL, "shell", "shop.py", "--plain"], tmp_path) as terminal:
        terminal.expect("fetched now\n>>> ")
        terminal.type('await page.fetch("/lamp")\n')
        terminal.expect(f"<Page 200 {site.url}/lamp")
        terminal.expect(">>> ")
        terminal.type("len(curr\t)\n")  # Tab completes
        terminal.expect("3\n>>> ")
        terminal.type("listi\t)\n")
        terminal.expect("listing()")
        terminal.expect("2 new requests")
        terminal.expect(">>> ")
        terminal.type("1/0\n")
        terminal.expect("ZeroDivisionError")
        terminal.expect(">>> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    history = tmp_path / ".shoal" / "shell_history"
    assert 'await page.fetch("/lamp")' in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_c_and_a_debugger(site: VisitedSite, tmp_path: Path) -> None:
    """Ctrl-C ends what computes and what waits, and the prompt is there again; also after pdb, whose handler stays."""
    answers, visit = Event(), site.note

    def note(path: str) -> None:
        visit(path)
        if path == "/slow":
            answers.wait(DEADLINE)

    site.note = note  # type: ignore[method-assign]
    try:
        with Terminal([*SHOAL, "shell", "shop.py", "--plain"], tmp_path) as terminal:
            terminal.expect(">>> ")
            terminal.type("stops()\n")
            terminal.expect("(Pdb) ")
            terminal.type("page.text('h1')\n")
            terminal.expect("'Lamps'")
            terminal.expect("(Pdb) ")
            terminal.type("c\n")
            terminal.expect("1 item")
            terminal.expect(">>> ")
            terminal.type("breakpoint()\n")
            terminal.expect("(Pdb) ")
            terminal.type("c\n")
            terminal.expect(">>> ")
            terminal.interrupt()
            terminal.expect("KeyboardInterrupt\n>>> ")
            terminal.type("endless()\n")
            terminal.expect("begun")
            terminal.process.send_signal(signal.SIGINT)
            terminal.expect("KeyboardInterrupt\n>>> ")
            for line in ('fetch("/slow")', 'await page.fetch("/slow")'):
                site.visits()
                terminal.type(f"{line}\n")
                terminal.until(lambda: "/slow" in site.visits())
                terminal.process.send_signal(signal.SIGINT)
                terminal.expect("KeyboardInterrupt\n>>> ")
            terminal.type('page.text("h1")\n')
            terminal.expect("'Lamps'\n>>> ")
            terminal.type("\x04")
            assert terminal.end() == 0
    finally:
        answers.set()


def test_a_page_stays_open_in_a_browser(run: Run, site: VisitedSite) -> None:
    if not available(Settings()):
        pytest.skip(why_not(Settings()))
    site.pages["/app"] = (
        "<h1>-</h1><script>document.querySelector('h1').onclick = e => e.target.append('clicked')</script>"
    )
    code = 'await page.click("h1")\nawait page.click("h1")\npage.text("h1")'
    assert run(code, f"{site.url}/app", "--browser") == ["'-clickedclicked'"]
    assert run('page.text("h1")\npage.cached', f"{site.url}/app", "--browser") == ["'-'", "True"]


def test_the_prompt_of_ipython(site: VisitedSite, tmp_path: Path) -> None:
    environ = {"IPYTHONDIR": str(tmp_path / "ipython"), "IPY_TEST_SIMPLE_PROMPT": "1"}
    with Terminal([*SHOAL, "shell", f"{site.url}/"], tmp_path, environ) as terminal:
        terminal.expect("fetched now")
        terminal.expect("In [1]: ")
        terminal.type('follow("li a")\n')
        terminal.expect(f"Out[1]: <Page 200 {site.url}/lamp")
        terminal.expect("In [2]: ")
        terminal.type('(await page.fetch("/")).text("h1"), page.text("h1")\n')
        terminal.expect("Out[2]: ('Lamps', 'Lamp')")
        terminal.expect("In [3]: ")
        terminal.type('css("a")\n')
        terminal.expect('0  <a class="up" href="/">up</a>')
        terminal.expect("In [4]: ")
        terminal.type('fetch("ftp://x/")\n')
        assert "Traceback" not in terminal.expect("UrlError: ftp://x/: only http and https")
        terminal.expect("In [5]: ")
        terminal.type("\x04")
        assert terminal.end() == 0

"""`shoal keep`: a page of a real site as files for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from visited_site import VisitedSite, visited_site

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider
spider = Spider("shop", start="http://127.0.0.1/")

@spider.handler
def product(page): ...

@spider.before_request
def sign(request):
    request.headers["X-Key"] = "hush"
    request.url += "?signed"
"""


@pytest.fixture
def site() -> Iterator[VisitedSite]:
    with visited_site() as site:
        site.pages = {
            "/lamp": (200, {"Content-Type": "text/html", "Set-Cookie": "sid=hush"}, b"<h1>L\xe4mp</h1>"),
            "/7": (302, {"Location": "/lamp"}, b""),
            "/lamp?signed": "signed",
        }
        yield site


def test_a_page_and_what_is_known_of_it(site: VisitedSite, cli: Cli) -> None:
    word = site.url.removeprefix("http://")
    code, out, _ = cli("keep", f"{word}/7", "-s", "rate=0")
    assert code == 0
    name = f"127.0.0.1-{word.partition(':')[2]}-lamp"
    assert out == f"tests/pages/{name}.html: HTTP 200, 13 B, fetched now\n"
    assert Path(f"tests/pages/{name}.html").read_bytes() == b"<h1>L\xe4mp</h1>"
    about = Path(f"tests/pages/{name}.json").read_text()
    assert json.loads(about)["url"] == f"{site.url}/lamp"
    assert json.loads(about)["redirected_from"] == [f"{site.url}/7"]
    assert "hush" not in about

    site.visits()
    assert (
        cli("keep", f"{word}/7", "other", "--name", "lamp.html")[1]
        == "other/lamp.html: HTTP 200, 13 B, from the cache\n"
    )
    assert site.visits() == []
    assert cli("keep", f"{word}/lamp", "--refresh", "-s", "rate=0")[0] == 0
    assert site.visits() == ["/lamp"]


def test_errors_are_kept_if_asked_for(site: VisitedSite, cli: Cli) -> None:
    words = ["keep", f"{site.url}/gone", "pages", "--name", "gone", "--no-cache", "-s", "rate=0"]
    code, _, err = cli(*words)
    assert code == 1
    assert "HTTP 404, http_404" in err
    assert not Path("pages").exists()
    assert cli(*words, "--any-status")[0] == 0
    assert json.loads(Path("pages/gone.json").read_text())["status"] == 404
    assert not Path(".shoal").exists()


def test_as_a_spider_fetches_it(site: VisitedSite, cli: Cli) -> None:
    Path("shop.py").write_text(SPIDER)
    words = ["keep", f"{site.url}/lamp", "pages", "--name", "lamp", "--spider", "shop.py", "-s", "rate=0"]
    assert cli(*words)[0] == 0
    assert Path("pages/lamp.html").read_bytes() == b"signed"
    assert "hush" not in Path("pages/lamp.json").read_text()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["lamp", "file/pages"], "cannot be saved in file/pages: Not a directory"),
        (["lamp", "--name", "a/b"], "choose a name"),
        (["lamp", "--cache", "c", "--no-cache"], "exclude each other"),
        (["lamp", "--spider", "none.py"], "none.py"),
    ],
)
def test_what_is_wrong_is_one_line(site: VisitedSite, words: list[str], problem: str, cli: Cli) -> None:
    Path("file").write_text("")
    code, _, err = cli("keep", f"{site.url}/{words[0]}", "-s", "rate=0", *words[1:])
    [line] = err.splitlines()
    assert code == 2
    assert problem in line


def test_a_file_is_no_url(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lamp.html").write_text("")
    assert cli("keep", "lamp.html") == (2, "", "shoal: lamp.html is a file; give the URL of a page\n")

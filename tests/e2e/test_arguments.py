"""Arguments of spiders from the command line: in a crawl, in the store, and in a fleet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from shoal import text
from shoal.errors import SpiderError, TrustError
from shoal.spider.arguments import Factory
from shoal.spider.loading import find_spider
from shoal.spider.served_spiders import ServedSpiders

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider

def spider(category: str, limit: int = 3, token: str = "") -> Spider:
    '''One category of the shop.'''
    made = Spider("shop", start=f"ORIGIN/{category}", max_pages=limit, rate=0, robots=False, max_attempts=1)

    @made.handler
    def listing(page):
        page.log.info("token %s", token)
        if limit == 4:
            raise ValueError(f"token {token}")
        yield {"url": page.url, "limit": limit, "token": len(token)}

    return made
"""


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the client to confirm the head

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"<p>hi")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def shop(cli: Cli, origin: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(text, "_hidden", [])
    Path("shop.py").write_text(SPIDER.replace("ORIGIN", origin))
    return cli


def rows() -> dict[str, list[dict[str, object]]]:
    return {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(Path().glob("*.jsonl"))
    }


def test_other_arguments_are_another_job_with_a_file_of_its_own(shop: Cli, origin: str) -> None:
    for category in ("books", "toys", "books"):
        assert shop("crawl", "shop.py", "-a", f"category={category}", "-q")[0] == 0
    urls = {name: [row["url"] for row in found] for name, found in rows().items()}
    assert sorted(urls.values()) == [[f"{origin}/books"], [f"{origin}/toys"]]
    _, out, _ = shop("status", "--json")
    jobs = {job["job"]: job["arguments"] for job in json.loads(out)["jobs"]}
    assert sorted(jobs.values()) == [["category=books"], ["category=toys"]]
    assert set(jobs) == set(urls)
    assert "category=toys" in shop("status")[1]


def test_a_job_goes_on_with_its_own_arguments(shop: Cli) -> None:
    assert shop("crawl", "shop.py", "-a", "category=books", "--job", "mine", "-q")[0] == 0
    code, _, err = shop("crawl", "shop.py", "-a", "category=toys", "--job", "mine")
    assert (code, err) == (
        2,
        "shoal: job mine was made with -a category=books: give it the same, another --job, or start again with "
        "--fresh\n",
    )
    assert (
        shop("crawl", "shop.py", "-a", "category=books", "-a", "token=abcdef", "--job", "mine", "-q")[0] == 0
    )
    assert shop("crawl", "shop.py", "-a", "category=toys", "--job", "mine", "--fresh", "-q")[0] == 0


def test_a_secret_reaches_neither_the_store_nor_the_screen(shop: Cli) -> None:
    said = shop("crawl", "shop.py", "-a", "category=books", "-a", "token=hunter22", "--log-level", "debug")
    assert said[0] == 0
    assert "token …" in said[2]
    failed = shop("crawl", "shop.py", "-a", "category=books", "-a", "limit=4", "-a", "token=hunter22")
    assert "hunter22" not in failed[1] + failed[2]
    assert "hunter22" not in said[1] + said[2]
    stored = [path for path in Path().rglob("*") if path.is_file()]
    assert len(stored) > 1
    assert [path.name for path in stored if b"hunter22" in path.read_bytes()] == []
    assert [row["token"] for found in rows().values() for row in found] == [8]
    _, out, _ = shop("status", "--json")
    noted = sorted(job["arguments"] for job in json.loads(out)["jobs"])
    assert noted == [["category=books", "limit=4", "token=…"], ["category=books", "token=…"]]


def test_help_args(shop: Cli) -> None:
    code, out, _ = shop("crawl", "shop.py", "--help-args")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["One", "category", "of", "the", "shop."]
    assert ["limit", "a", "whole", "number", "3"] in lines
    assert ["category", "a", "string", "required"] in lines
    assert shop("crawl", "http://a.example/", "--help-args")[0] == 2


def test_workers_make_the_spider_of_a_job(shop: Cli, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter22")
    assert shop("submit", "shop.py", "-a", "category=books", "-a", "limit=2", "-q")[0] == 0
    assert shop("submit", "shop.py", "-a", "category=toys", "-a", "token=env:SHOP_TOKEN", "-q")[0] == 0
    code, _, err = shop("submit", "shop.py", "-a", "category=toys", "-a", "token=hunter22")
    assert code == 2
    assert "-a token: a secret is not written to the store; give token=env:NAME" in err
    code, _, err = shop("worker", "shop.py", "--until-done")
    assert code == 0, err
    assert sorted((row["url"], row["limit"], row["token"]) for found in rows().values() for row in found) == [
        (f"{origin}/books", 2, 0),
        (f"{origin}/toys", 3, 8),
    ]


def test_a_job_of_a_store_that_is_not_trusted(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It chooses neither a secret of the worker nor a host that is trusted like those in its code."""
    monkeypatch.setenv("SHOAL_ARG_TOKEN", "meant for it")
    factory = find_spider("shop.py")
    assert isinstance(factory, Factory)
    own = ServedSpiders({}, {factory.name: factory}, trusted=False)
    for secret in ("env:HOME", "file:/etc/hostname", "hunter22"):
        with pytest.raises(TrustError, match="no secret that a job may read here"):
            own[f"shop:spider category=books token={secret}"]
    made = own["shop:spider category=books token=env:SHOAL_ARG_TOKEN"]
    assert own["shop:spider category=books token=env:SHOAL_ARG_TOKEN"] is made
    assert made.start_urls_known() == []
    assert "shop:spider category=x" in own
    assert "shop:other category=x" not in own
    with pytest.raises(SpiderError, match="no spider named 'shop:other'"):
        own["shop:other"]

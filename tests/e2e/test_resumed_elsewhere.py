"""A job that is resumed with other outputs than it was begun with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from visited_site import visited_site

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider
# Without backpressure: a busy machine is late, and Shoal would warn of that.
spider = Spider("shop", start="{url}/", rate=0, robots=False, backpressure=[])

@spider.handler
def listing(page):
    yield from page.follow_all("a", product)

@spider.handler
def product(page):
    yield {{"url": page.url}}
"""
BEGUN = ["crawl", "shop.py", "-q", "-o", "a.csv", "-o", "b.jsonl"]


def test_several_outputs_are_not_exchanged(cli: Cli) -> None:
    """They share one log, which is found by the name of the job: other files would get the rest of the rows, and
    none of the two would have them all."""
    with visited_site() as site:
        site.pages = {"/": "".join(f'<a href="/{n}">{n}</a>' for n in range(4))}
        site.pages |= {f"/{n}": "<p>" for n in range(4)}
        Path("shop.py").write_text(SPIDER.format(url=site.url))
        assert cli(*BEGUN, "--max-pages", "3") == (0, "", "")

        others = [
            ["-o", "c.csv", "-o", "d.jsonl"],
            ["-o", "a.csv", "-o", "b.jsonl", "-o", "c.csv"],
            ["-o", "a.csv"],
            [],
        ]
        for output in others:
            code, _, err = cli("crawl", "shop.py", "-q", *output)
            go_on = "go on with -o a.csv -o b.jsonl, or start again with --fresh"
            assert (code, err) == (3, f"shoal: job shop has its 2 rows elsewhere: {go_on}\n")

        assert cli(*BEGUN, "--max-pages", "4") == (0, "", "")
        assert cli("crawl", "shop.py", "-q", "-o", "b.jsonl", "-o", "a.csv") == (0, "", "")

    assert len(Path("b.jsonl").read_text().splitlines()) == 4
    assert len(Path("a.csv").read_text().splitlines()) == 1 + 4

"""What the benchmark of peers counts as a result, and what it makes of results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.fleet.report import fill_in
from benchmarks.peers import gauge
from benchmarks.peers.__main__ import resized
from benchmarks.peers.asked import Asked
from benchmarks.peers.measure import CrawlError, Row, Run, check_asked, check_rows
from benchmarks.peers.plot import svg
from benchmarks.peers.report import markdown, ratio_table, shape_table, times
from benchmarks.peers.results import Failure, Results, figures, ratio
from benchmarks.peers.shapes import SHAPES, Shape

SHAPE = Shape("links", "a small site", pages=3)
PAGES = {f"http://host/p/{number}": number for number in range(3)}


def row(number: int, **fields: object) -> Row:
    return msgspec.structs.replace(Row(f"http://host/p/{number}", 200, f"Page {number}: tide", 33), **fields)


def run(cpu: float, pages: int = 1000, **fields: object) -> Run:
    return msgspec.structs.replace(Run(pages, cpu, wall=2.0, memory=50_000_000, asked=Asked(pages)), **fields)


# -- is it a result?


def test_the_server_counts_pages_once_and_robots_and_others_apart() -> None:
    asked = {b"/p/0": 1, b"/p/1": 3, b"/robots.txt": 2, b"/favicon.ico": 1}
    found = Asked().with_host(asked, [b"/p/0", b"/p/1", b"/p/2"])
    assert found == Asked(pages=2, missing=1, again=2, robots=2, other=1)
    assert found.with_host({b"/p/0": 1}, [b"/p/0"]).pages == 3


def test_a_crawl_must_ask_for_every_page_and_hardly_any_again() -> None:
    check_asked("it", Asked(pages=1000, robots=1, again=10))
    for asked in (Asked(pages=999, missing=1), Asked(pages=1000, again=11), Asked(pages=1000, other=1)):
        with pytest.raises(CrawlError, match="says the server"):
            check_asked("it", asked)


def test_rows_must_be_there_once_and_right() -> None:
    right = [row(0), row(1), row(2)]
    check_rows("it", right, PAGES, SHAPE)
    check_rows(
        "it", [row(n, title=None, links=None) for n in range(3)], PAGES, Shape("list", "", 3, follow=False)
    )
    wrong = {
        "1 missing": right[:2],
        "1 doubled": [*right, row(2)],
        "wrong row": [*right[:2], row(2, title="Page 1: tide")],
        "a wrong row": [*right[:2], row(2, links=32)],
        "wrote a wrong row": [*right[:2], row(2, status=500)],
    }
    for words, rows in wrong.items():
        with pytest.raises(CrawlError, match=words):
            check_rows("it", rows, PAGES, SHAPE)


def test_every_page_of_a_shape_is_on_one_of_its_hosts() -> None:
    for shape in SHAPES.values():
        assert sum(site.pages for site in shape.sites()) == shape.pages
    assert resized(SHAPES["hosts"], 30).pages == 100
    assert resized(SHAPES["large"], 6000).pages == 2 * SHAPES["large"].pages


# -- what does it take?


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come back on Linux only")
def test_the_gauge_counts_children_and_orphans(tmp_path: Path) -> None:
    """A process that works for a third of a second, started by one that has ended by then."""
    work = "import time\nwhile time.process_time() < 0.33: pass"
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {work!r}])"
    taken = _gauge(tmp_path, "60", start)
    assert taken["code"] == 0
    assert not taken["killed"]
    assert taken["cpu"] >= 0.33
    assert taken["memory"] > 1_000_000


def test_the_gauge_ends_what_takes_too_long(tmp_path: Path) -> None:
    taken = _gauge(tmp_path, "0.3", "import time; time.sleep(600)")
    assert taken["killed"]
    assert taken["code"] == -9


def _gauge(folder: Path, seconds: str, program: str) -> dict[str, Any]:
    result = folder / "taken.json"
    patient = (
        f"import sys; sys.path.insert(0, {str(Path(gauge.__file__).parent)!r}); "
        "import gauge; gauge._GRACE = 60; gauge.main()"
    )
    command = [
        sys.executable,
        "-I",
        "-c",
        patient,
        str(result),
        seconds,
        "--",
        sys.executable,
        "-c",
        program,
    ]
    subprocess.run(command, check=True, timeout=60)
    return msgspec.json.decode(result.read_bytes(), type=dict[str, Any])


# -- what follows from it?


def test_figures_are_medians_and_one_page_more_is_without_the_start() -> None:
    found = figures([run(1.0), run(3.0), run(1.5)], [run(0.5, pages=1)])
    assert (found.cpu_ms, found.lowest_ms, found.highest_ms) == (1.5, 1.0, 3.0)
    assert found.more_ms == pytest.approx(1.0)
    assert found.pages_per_second == 500
    assert found.valkey_ms is None
    assert figures([run(1.0, valkey_cpu=0.2)], []).valkey_ms == pytest.approx(0.2)


def test_a_ratio_compares_within_rounds() -> None:
    """The machine was ten times slower in the second round, for both."""
    assert ratio([run(2.0), run(20.0), run(2.0)], [run(1.0), run(10.0), run(1.0)]) == 2.0


def test_ratios_read_as_people_say_them() -> None:
    assert [times(one) for one in (1.749, 1.0, 1 / 8.21, 0.1, None)] == ["1.75", "1.00", "1/8.2", "1/10", "–"]


@pytest.fixture
def results() -> Results:
    runs = {
        "aiohttp": [run(1.0), run(1.2)],
        "shoal": [run(0.9), run(1.1)],
        "crawlee": [run(4.0), run(4.2)],
        "shoal-valkey": [run(1.5, valkey_cpu=0.1), run(1.6, valkey_cpu=0.1)],
        "scrapy": [],
    }
    starts = {name: [run(0.2, pages=1)] for name in runs}
    about = {"python": "3.11", "system": "Linux"}
    failed = [Failure("links", "scrapy", "it lost a page")]
    shape = Shape("links", "a <small> site", pages=1000)
    return Results(about, 100, [shape], list(runs), {"links": runs}, starts, failed)


def test_tables_say_who_failed_and_which_aim_is_reached(results: Results) -> None:
    rows = {row[0]: row for row in shape_table(results, "links").rows}
    assert rows["Shoal"][1:3] == ["1.00", "0.91"]
    assert rows["Scrapy"][1] == "failed"
    aims = {row[0]: row[1:] for row in ratio_table(results).rows}
    assert aims["Shoal : bare aiohttp"] == ["≤ 1.00", "**0.91**"]
    assert aims["Shoal : Crawlee, in memory"] == ["≤ 1/6", "1/4.1"]
    assert "Shoal : Scrapy" not in aims
    more = {row[0]: row[2] for row in ratio_table(results, startup=False).rows}
    assert more["Shoal : Crawlee, in memory"] == "1/4.9"


def test_a_table_finds_its_place_in_the_document(results: Results, tmp_path: Path) -> None:
    document = tmp_path / "peers.md"
    document.write_text("before\n<!-- links -->\nold\n<!-- end of links -->\nafter\n")
    fill_in(document, "links", markdown(shape_table(results, "links")))
    lines = document.read_text("utf-8").splitlines()
    assert lines[2].startswith("| crawler | CPU ms a page")
    assert "old" not in lines
    assert lines[-2:] == ["<!-- end of links -->", "after"]


def test_the_plot_has_a_bar_for_each_that_finished(results: Results) -> None:
    drawing = ElementTree.fromstring(svg(results, results.shapes[0]))
    texts = ["".join(text.itertext()) for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in ("Shoal", "bare aiohttp", "Crawlee, in memory", "Scrapy")] == [
        "Shoal",
        "bare aiohttp",
        "Crawlee, in memory",
    ]
    assert any(text.startswith("1.00 ms") for text in texts)

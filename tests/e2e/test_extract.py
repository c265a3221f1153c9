"""`shoal extract`: the rows of archived pages are those of a crawl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from multidict import CIMultiDict

from crash.harness import until
from shoal.archive.record_id import new_id
from shoal.archive.records import Exchange, Metadata, encode
from shoal.model import Response, Task

Cli = Callable[..., tuple[int, str, str]]

SPIDER = """
from shoal import Spider, FetchFailed
spider = Spider("shop", start="http://a.test/")

@spider.handler
def first(page):
    yield {"url": page.url, "handler": "first"}

@spider.handler(key="sku")
def product(page):
    yield {"sku": page.text("h1"), "at": page.fetched_at, "depth": page.depth, **page.meta}
    yield page.follow("/more", product)
"""


def archived(folder: Path, pages: int, name: str = "a", **told: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.warc.gz"
    with path.open("wb") as file:
        for number in range(pages):
            file.write(record(number, **told))
    return path


def record(number: int, body: str = "", **told: object) -> bytes:
    url = f"http://a.test/{number}"
    headers = CIMultiDict({"Content-Type": "text/html"})
    given: dict[str, object] = {
        "job": "shop", "handler": "product", "page": True, "fetched_at": 1.9e9 + number,
        "depth": 2, "meta": {"number": number}, **told,
    }  # fmt: skip
    text = body or f"<h1>product {number}</h1>"
    return encode(
        Exchange(
            id=new_id(),
            task=Task(url),
            response=Response(url, 200, headers, text.encode()),
            metadata=Metadata(**given),  # type: ignore[arg-type]
        )
    ).data


def rows_in(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_are_in_the_order_of_the_archive(cli: Cli, tmp_path: Path) -> None:
    Path("shop.py").write_text(SPIDER)
    archived(tmp_path / "pages", 300)
    archived(tmp_path / "pages", 10, "b")  # the same pages again: of each, the one that comes later
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl", "--processes", "2")
    assert code == 0, said
    rows = rows_in(Path("rows.jsonl"))
    assert [row["number"] for row in rows] == [*range(10, 300), *range(10)]
    assert rows[0] == {"sku": "product 10", "at": 1.9e9 + 10, "depth": 2, "number": 10}
    assert "10 older versions of a page" in said or "older versions of a page" in said
    assert cli("extract", "shop.py", "--from", "pages", "-o", "one.jsonl", "--processes", "1", "-q")[0] == 0
    assert Path("one.jsonl").read_bytes() == Path("rows.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


FAILING = """
import os, signal, time
from shoal import Spider, FetchFailed
spider = Spider("shop", start="http://a.test/")

@spider.handler(key="sku")
async def product(page):
    number = page.meta["number"]
    if number == 3:
        raise ValueError("three is odd")
    if number == 5:
        yield {"name": "no key"}
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 9:
        while True:
            pass
    if number == 11:
        found = await page.fetch("/12")
        yield {"sku": "of another page: " + found.text("h1")}
    if number == 13:
        await page.fetch("/missing")
    if number == 14:
        await page.download("/file.pdf")
    if number == 15:
        print("said", flush=True)
    yield {"sku": page.text("h1")}
    page.count("seen")
"""


def test_what_fails_costs_only_itself(cli: Cli, tmp_path: Path) -> None:
    Path("shop.py").write_text(FAILING)
    archived(tmp_path / "pages", 40)
    code, out, said = cli(
        "extract",
        "shop.py",
        "--from",
        "pages",
        "-o",
        "rows.jsonl",
        "-s",
        "handler_timeout=1",
        "--processes",
        "1",
    )
    assert code == 0, said
    skus = [row["sku"] for row in rows_in(Path("rows.jsonl"))]
    lost = {3, 7, 9, 13, 14}
    expected = [f"product {number}" for number in range(40) if number not in lost]
    expected.insert(expected.index("product 12") - 1, "of another page: product 12")
    assert skus == expected
    for words in (
        "ValueError: three is odd", "its key field 'sku' is missing", "SIGKILL", "handler_timeout",
        "it is not in the archive", "extract downloads no files", "http://a.test/7", "http://a.test/9",
        'raise ValueError("three is odd")', "seen 35",
    ):  # fmt: skip
        assert words in said, words
    assert "said" in said
    assert out == ""
    assert "engine/handling.py" not in said  # lines of the user's own come first


def test_the_output_is_complete_or_not_there(cli: Cli, tmp_path: Path) -> None:
    Path("shop.py").write_text(SPIDER + "\n    import time; time.sleep(0.05)\n")
    archived(tmp_path / "pages", 200)
    command = [sys.executable, "-m", "shoal", "extract", "shop.py", "--from", "pages", "-o", "rows.jsonl"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        part = tmp_path / ".rows.jsonl.extract" / "rows.jsonl"
        until(lambda: (part.exists() and part.stat().st_size) or process.poll() is not None, "a row")
        assert process.poll() is None
        code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl")
        assert (code, "another shoal extract" in said) == (3, True)
        process.kill()
    assert not Path("rows.jsonl").exists()
    Path("shop.py").write_text(SPIDER)
    assert cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl")[0] == 0
    assert len(rows_in(Path("rows.jsonl"))) == 200
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl")
    assert code == 3
    assert "--fresh" in said
    assert cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl", "--fresh", "--limit", "5")[0] == 0
    assert len(rows_in(Path("rows.jsonl"))) == 5


KINDS = """
from shoal import Spider
spider = Spider("shop", start="http://a.test/")

@spider.handler(item="product")
def product(page):
    yield {"sku": page.text("h1")}

@spider.handler(item="review")
def review(page):
    yield {"text": page.text("h1")}
"""


def test_several_outputs(cli: Cli, tmp_path: Path) -> None:
    Path("shop.py").write_text(KINDS)
    archived(tmp_path / "pages", 5)
    archived(tmp_path / "pages", 3, "b", handler="review")
    outputs = [
        "-o",
        "product=products.jsonl",
        "-o",
        "{item}-of-{job}.jsonl",
        "-o",
        "-",
        "-o",
        "none=none.jsonl",
    ]
    code, out, said = cli("extract", "shop.py", "--from", "pages", *outputs)
    assert code == 0, said
    assert len(rows_in(Path("products.jsonl"))) == len(rows_in(Path("product-of-shop.jsonl"))) == 5
    assert len(rows_in(Path("review-of-shop.jsonl"))) == 3
    assert rows_in(Path("none.jsonl")) == []
    assert len(out.splitlines()) == 8
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "{item}-of-{job}.jsonl")
    assert (code, "-of-shop.jsonl already holds" in said) == (3, True)
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "postgresql://localhost/db")
    assert (code, "files, object stores and standard output only" in said) == (2, True)
    Path("none.jsonl").write_text("old")
    assert cli("extract", "shop.py", "--from", "pages", *outputs, "--fresh")[0] == 0
    assert Path("none.jsonl").read_text() == ""


def test_archives_that_are_broken_or_of_others(cli: Cli, tmp_path: Path) -> None:
    Path("shop.py").write_text(SPIDER)
    path = archived(tmp_path / "pages", 20)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + b"damage" + data[middle + 6 : -30])
    code, _, said = cli("extract", "shop.py", "--from", "pages", "-o", "rows.jsonl")
    assert code == 0, said
    assert 17 <= len(rows_in(Path("rows.jsonl"))) <= 19
    assert "a.warc.gz at " in said
    assert said.count("a.warc.gz at ") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["extract", "shop.py"], "--from"),
        (["extract", "shop.py", "--from", "none"], "no such file or folder"),
        (["extract", "shop.py", "--from", "empty"], "no WARC files"),
        (["extract", "shop.py", "--from", "pages", "--handler", "nobody"], "nobody"),
        (["extract", "shop.py", "--from", "pages", "--since", "yesterday"], "not a time"),
        (["extract", "shop.py", "--from", "pages", "--limit", "0"], "--limit"),
        (["extract", "none.py", "--from", "pages"], "none.py"),
        (["extract", "https://a.test/", "--from", "pages"], "no spider"),
        (["extract", "shop.py", "--from", "pages", "-o", "nowhere/rows.jsonl"], "no directory"),
    ],
)
def test_wrong_usage_is_one_line(cli: Cli, tmp_path: Path, words: list[str], says: str) -> None:
    Path("shop.py").write_text(SPIDER)
    (tmp_path / "empty").mkdir()
    archived(tmp_path / "pages", 1)
    code, _, said = cli(*words)
    assert code == 2
    assert says in said
    assert len(said.splitlines()) == 1


def test_interrupted(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SPIDER + "\n    import time; time.sleep(0.05)\n")
    archived(tmp_path / "pages", 400)
    command = [sys.executable, "-m", "shoal", "extract", "shop.py", "--from", "pages", "-o", "rows.jsonl"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        part = tmp_path / ".rows.jsonl.extract" / "rows.jsonl"
        until(lambda: (part.exists() and part.stat().st_size) or process.poll() is not None, "a row")
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"pages", "shop.py"}

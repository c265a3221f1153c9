"""Shops of every manner from one TOML file, and the file that `shoal guess` writes for one of them. The fifty are
crawled by `python -m benchmarks.shops`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from benchmarks.shops.__main__ import FILE, with_addresses
from benchmarks.shops.judging import judge

from shoal.testing.shops import ShopsProcess, ShopsSpec, Storefront

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def shops() -> Iterator[ShopsProcess]:
    with ShopsProcess(ShopsSpec(shops=10, products=5)) as served:
        yield served


def crawl(cli: Cli, file: str) -> list[dict[str, object]]:
    code, _, said = cli("crawl", file, "-o", "rows.jsonl", "--rate", "0", "-q")
    assert code == 0, said
    return [msgspec.json.decode(line) for line in Path("rows.jsonl").read_bytes().splitlines()]


def test_ten_shops_from_one_file(cli: Cli, shops: ShopsProcess) -> None:
    text = with_addresses(FILE.read_text("utf-8"), shops.fronts)
    Path("shops.toml").write_text(text, "utf-8")
    verdicts = judge(shops.fronts, crawl(cli, "shops.toml"))
    assert [(one.shop, one.missing, one.doubled, one.wrong) for one in verdicts if not one.good] == []
    assert {
        visit.path for visit in shops.visits() if visit.path.startswith(("/cart", "/account", "/search"))
    } == set()


def test_a_guess_is_checked_and_crawled_as_it_is(cli: Cli, shops: ShopsProcess) -> None:
    front = next(front for front in shops.fronts if front.plan.name == "visible-attributes")
    code, out, said = cli("guess", f"{front.base}/", "-o", "guess.toml", "-s", "rate=0")
    assert code == 0, said
    assert out == ""
    for shown in ("price", "availability", 'attr = "data-price"', "likely", "written to guess.toml"):
        assert shown in said
    code, out, _ = cli("check", "guess.toml")
    assert code == 0, out
    assert judge([front], crawl(cli, "guess.toml"))[0].good


def test_a_guess_replaces_nothing_unasked(cli: Cli, shops: ShopsProcess) -> None:
    front: Storefront = shops.fronts[0]
    Path("mine.toml").write_text("mine")
    code, _, said = cli("guess", front.base, "-o", "mine.toml")
    assert (code, Path("mine.toml").read_text()) == (2, "mine")
    assert "mine.toml is there already: --force replaces it" in said
    assert cli("guess", front.base, "-o", "mine.txt")[0] == 2
    assert cli("guess", front.base, "http://127.9.9.9/")[0] == 2
    code, _, said = cli("guess", f"{front.base}/about", f"{front.base}/nothing", "-o", "-", "-s", "rate=0")
    assert code != 0
    assert said.count("\n") == 1, said

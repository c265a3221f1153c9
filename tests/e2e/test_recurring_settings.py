"""A spider says how often it runs: `shoal submit` keeps to it, `shoal crawl` says that it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]


def spider(folder: Path, settings: str, options: str = "") -> None:
    (folder / "one.py").write_text(
        "from shoal import Spider\n"
        f"spider = Spider('one', start='http://127.0.0.1:9/', {settings})\n"
        f"@spider.handler{options}\n"
        "def page(page):\n"
        "    yield {}\n"
    )


SUBMIT = ("submit", "one.py", "-o", "rows.jsonl", "--store", "s.db")


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ("every='2h'", (), "schedule one: runs every 2h, next at"),
        ("cron='30 4 * * 1-5'", (), "schedule one: runs at '30 4 * * 1-5' (UTC), next at"),
        ("every='2h'", ("--every", "1d"), "schedule one: runs every 1d, next at"),
        ("every='2h'", ("--cron", "0 0 1 * *"), "schedule one: runs at '0 0 1 * *' (UTC)"),
        ("every='2h'", ("-s", "every="), "job one"),
    ],
)
def test_submit_keeps_to_what_the_spider_says(
    cli: Cli, tmp_path: Path, settings: str, words: tuple[str, ...], said: str
) -> None:
    spider(tmp_path, settings)
    code, _, err = cli(*SUBMIT, *words)
    assert (code, said in err) == (0, True), err


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ("every='2h', cron='30 4 * * *'", "", "give one of every and cron"),
        ("every='often'", "", "every 'often' is not a time: write it like 30s, 10m, 2h or 1d"),
        ("every='0.5s'", "", "every 0.5s: at least 1s"),
        ("cron='daily'", "", "cron 'daily' has 1 fields: write five"),
        ("every='1h'", "(revisit='auto')", "never ends, so no second run of it begins"),
    ],
)
def test_nonsense_is_told_in_one_line(
    cli: Cli, tmp_path: Path, settings: str, options: str, said: str
) -> None:
    spider(tmp_path, settings, options)
    code, _, err = cli(*SUBMIT)
    assert (code, said in err, err.strip().count("\n")) == (2, True, 0), err


def test_a_crawl_says_that_it_runs_once(cli: Cli, tmp_path: Path) -> None:
    spider(tmp_path, "every='2h', max_attempts=1, allow_network=['127.0.0.0/8'], robots=False")
    _, _, err = cli("crawl", "one.py", "--store", "s.db", "-q")
    assert (
        "every '2h' is for shoal submit --store s.db, which runs it again and again; this crawl runs once"
        in err
    )


def test_submit_says_what_stays_empty(cli: Cli, tmp_path: Path) -> None:
    spider(tmp_path, "")
    code, _, err = cli(*SUBMIT, "-o", "changes=c.jsonl")
    assert (code, "-o changes= gets what has changed on pages that are visited again" in err) == (0, True), (
        err
    )

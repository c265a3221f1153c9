"""`shoal webhook test`: what it says of receivers that take a delivery, and of those that do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Cli = Callable[..., tuple[int, str, str]]


def test_a_receiver_that_is_not_there_is_told_without_its_token(cli: Cli) -> None:
    code, out, err = cli("webhook", "test", "--webhook", "http://127.0.0.1:9/t0ken-of-mine", "--json")
    [told] = json.loads(out)
    assert (code, told["taken"], told["webhook"]) == (1, False, "webhook 1 (127.0.0.1:9)")
    assert "t0ken" not in out + err


def test_without_a_webhook_there_is_nothing_to_try(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("webhook", "test")
    assert (code, err.count("\n")) == (2, 1)
    assert "no webhook is set: give --webhook URL, or the setting webhook" in err


def test_the_webhooks_of_a_spider_are_tried(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from shoal import Spider\n"
        "spider = Spider('one', webhook=['http://127.0.0.1:9/', 'http://127.0.0.1:10/'])\n"
        "@spider.handler\n"
        "def page(page): ...\n"
    )
    code, out, _ = cli("webhook", "test", "one.py")
    assert (code, [line.partition(": ")[0] for line in out.splitlines()]) == (
        1,
        ["webhook 1 (127.0.0.1:9)", "webhook 2 (127.0.0.1:10)"],
    )


def test_a_crawl_with_a_word_that_is_no_address_does_not_begin(cli: Cli) -> None:
    code, _, err = cli("crawl", "http://127.0.0.1:9/", "--webhook", "hooks.example/s3cret")
    assert (code, err.count("\n")) == (2, 1)
    assert "webhook: number 1 is not an address; write it like https://hooks.example.com/shoal" in err
    assert "s3cret" not in err

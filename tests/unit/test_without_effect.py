"""What was asked for and does nothing is said in one line."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.runtime.job_plan import JobPlan, without_effect
from shoal.settings import Settings
from shoal.spider.revisits import visits_again
from shoal.spider.spider import Spider

OUTPUT = ["rows.jsonl", "changes=changes.jsonl"]


def plan_of(output: list[str] | None = None, handler: str = "", **settings: Any) -> JobPlan:
    spider = Spider("shop", "https://shop.example/")

    @spider.handler(revisit=handler)
    def page(page: object) -> None: ...

    return JobPlan(spider, Settings(**settings), "shop", output=output)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (plan_of(OUTPUT), "-o changes= gets what has changed on pages that are visited again; neither"),
        (plan_of(webhook=["https://a.example/"]), "--webhook gets what has changed"),
        (plan_of(OUTPUT, revisit="1h", max_pages=9), "with max_pages, every page is visited once"),
        (plan_of(OUTPUT, revisit="1h", offline=True), "with offline, every page is visited once"),
        (plan_of(every="2h"), "every '2h' is for shoal submit"),
        (plan_of(cron="30 4 * * *"), "cron '30 4 * * *' is for shoal submit"),
    ],
)
def test_it_is_said(plan: JobPlan, said: str) -> None:
    (line,) = without_effect(plan)
    assert said in line


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(["rows.jsonl"]),
        plan_of(OUTPUT, revisit="1h"),
        plan_of(OUTPUT, handler="auto"),
        plan_of(OUTPUT, handler="never", revisit="1h", webhook=["https://a.example/"]),
    ],
)
def test_nothing_is_said_of_what_works(plan: JobPlan) -> None:
    assert not list(without_effect(plan))


@pytest.mark.parametrize(
    ("setting", "handler", "again"),
    [
        ("", "", False),
        ("never", "", False),
        (" never ", "", False),
        ("1h", "", True),
        ("1h", "never", True),  # of other handlers
        ("", "auto", True),
        ("never", "1d", True),
    ],
)
def test_visits_again(setting: str, handler: str, again: bool) -> None:
    plan = plan_of(handler=handler, revisit=setting)
    assert visits_again(plan.spider, plan.settings) is again

"""control.md says what the policies, lanes and rules really are, and its example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import fields

import shoal
from shoal.policy.backpressure import RULES, Rule, RuleState
from shoal.policy.breaker import _TRANSITIONS
from shoal.policy.load import Signals
from shoal.policy.protocol import Limits, Observation
from shoal.settings import POLICIES, WEIGHTS, BackpressureRule, Settings
from shoal.testing import ChaoticWeb, HostProfile

DOC = (Path(__file__).parents[2] / "docs" / "control.md").read_text("utf-8")

# What the sentences of the document were said about.
MOMENTS = {
    "queue_full": Signals(pending=20_480),
    "queue_growth": Signals(pending=6_150, growth=7.2, feeding=True),
    "host_429": Signals(fetches=340, too_many_share=0.12),
    "latency": Signals(latency=1.38, baseline_latency=0.6),
    "retries": Signals(fetches=210, retry_share=0.58),
    "sink": Signals(sink_lag=1.6),
    "machine": Signals(memory=1_640 << 20, memory_limit=1_600 << 20),
    "backlog": Signals(backlog=310 << 20),
    "proxies": Signals(fetches=120, proxy_error_share=0.41),
    "store": Signals(store_used=1_740 << 20, store_limit=2_048 << 20),
}


def section(title: str) -> str:
    return re.split(r"\n##+ ", DOC.partition(f"# {title}\n")[2])[0]


def rows(title: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.+) \|$", section(title), re.MULTILINE)
    return [[cell.strip(" `") for cell in line.split(" | ")] for line in lines[1:]]


def test_every_policy() -> None:
    assert [name for name, *_ in rows("Host policies")] == list(POLICIES)


def test_the_breakers_table_is_the_codes() -> None:
    told = [(phase.replace(" ", "_"), event.replace(" ", "_")) for phase, event, *_ in rows("The breaker")]
    assert told == list(_TRANSITIONS)


def test_every_rule() -> None:
    assert [name for name, *_ in rows("Backpressure")] == list(get_args(BackpressureRule))
    kinds = {name: then.split(":")[0].removeprefix("only ") for name, _, then, _ in rows("Backpressure")}
    for rule in RULES:
        kind = "throttle" if rule.pace else "gate" if rule.feeding_paused or rule.paused_lanes else "tells"
        assert kinds[rule.name] == kind


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_sentence(rule: Rule) -> None:
    signals = MOMENTS[rule.name]
    state = rule.step(RuleState(), signals, Settings(), 0.0)
    assert state.on
    assert f"backpressure {rule.name} on: {rule.sentence(state, signals, Settings())}\n" in section(
        "Backpressure"
    )


def test_weights_of_the_lanes() -> None:
    told = re.findall(r"`(\w+)` (\d+)", section("Lanes").partition(". ")[0])
    assert {name: float(weight) for name, weight in told} == WEIGHTS


def test_fields_that_a_policy_meets() -> None:
    prose = section("A policy of your own")
    for kind in (Observation, Limits):
        assert [field.name for field in fields(kind) if f"`{field.name}`" not in prose] == []


async def test_the_example_slows_a_host_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.+?)```", DOC, re.DOTALL)
    hasty = code.replace("interval=10.0", "interval=0.2").replace("http_403", "ok")
    (tmp_path / "shy.py").write_text(hasty)
    monkeypatch.syspath_prepend(tmp_path)
    [policies] = re.findall(r"^policies = (\[.+\])$", DOC, re.MULTILINE)
    async with ChaoticWeb({"site": HostProfile(pages=4)}) as web:
        spider = shoal.Spider("shy", [web.url("site", f"/p/{n}") for n in range(4)], rate=100, robots=False)
        spider.add_handler(lambda page: None, name="page")
        await shoal.crawl(spider, policies=policies)
        assert min(web.gaps("site")[1:]) > 0.15

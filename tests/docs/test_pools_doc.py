"""Every setting of a pool is in a table of docs/proxies.md, and every strategy is explained there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from shoal.settings import POOL_KEYS, GatewayError, PoolStrategy

DOC = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text("utf-8")


def names(heading: str) -> set[str]:
    rows = DOC.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_setting_of_a_pool_is_listed() -> None:
    assert names("| setting of a pool |") == set(POOL_KEYS)
    assert names("| setting of a gateway |") <= set(POOL_KEYS)


def test_every_strategy_is_explained() -> None:
    section = DOC.split("## Which proxy")[1].split("\n## ")[0]
    assert [word for word in get_args(PoolStrategy) if word not in section] == []
    assert all(f"`{word}`" in DOC for word in get_args(GatewayError))

"""Three item hooks such as people write: they strip texts, add a field, and check one."""

from __future__ import annotations

from typing import Any

from shoal import Drop


class Strip:
    def on_item(self, item: dict[str, Any], page: object) -> dict[str, Any]:
        return {name: value.strip() if isinstance(value, str) else value for name, value in item.items()}


class Stamp:
    def on_item(self, item: dict[str, Any], page: Any) -> None:
        item["depth_twice"] = page.depth * 2


class Check:
    def on_item(self, item: dict[str, Any], page: object) -> dict[str, Any]:
        if not item.get("url"):
            raise Drop("no URL")
        return item

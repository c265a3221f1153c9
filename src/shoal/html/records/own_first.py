"""Which of several records the page itself is about: a shop describes recommended products, too. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.structured import Structured


def own_first(found: Structured, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with the URL of the page before those without any, and these before those of other pages."""
    if len(records) < 2:
        return records
    own = {_folded(url) for url in found.own_urls()}

    def rank(record: dict[str, Any]) -> int:
        url = record.get("url")
        return 1 if not url else 0 if _folded(url) in own else 2

    return sorted(records, key=rank)


def _folded(url: str) -> str:
    return url.partition("#")[0].rstrip("/")

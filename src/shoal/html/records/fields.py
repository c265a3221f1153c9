"""The fields of every kind of record, in order. docs/structured.md says what they mean; a test compares the two."""

from __future__ import annotations

FIELDS: dict[str, tuple[str, ...]] = {
    "product": (
        "type", "name", "description", "url", "image", "images", "sku", "gtin", "mpn", "brand", "category", "price",
        "currency", "list_price", "low_price", "high_price", "availability", "condition", "seller", "valid_until",
        "rating", "properties", "offers", "variants", "source",
    ),
}  # fmt: skip
KINDS = tuple(FIELDS)

_LISTS = frozenset(("images", "offers", "variants", "source"))


def empty(name: str) -> list[str] | dict[str, str] | None:
    """What a field holds if the page does not say."""
    return [] if name in _LISTS else {} if name == "properties" else None

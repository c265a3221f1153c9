"""The fields of every kind of record, in order. docs/structured.md says what they mean; a test compares the two."""

from __future__ import annotations

# fmt: off
FIELDS: dict[str, tuple[str, ...]] = {
    "product": (
        "type", "name", "description", "url", "image", "images", "sku", "gtin", "mpn", "brand", "category", "price",
        "currency", "list_price", "low_price", "high_price", "availability", "condition", "seller", "valid_until",
        "rating", "properties", "offers", "variants", "source",
    ),
    "article": (
        "type", "headline", "description", "url", "author", "authors", "published", "modified", "section", "keywords",
        "image", "images", "publisher", "language", "word_count", "free", "body", "source",
    ),
    "event": (
        "type", "name", "description", "url", "image", "start", "end", "status", "attendance", "location", "address",
        "performers", "organizer", "price", "currency", "low_price", "high_price", "availability", "offers", "source",
    ),
    "recipe": (
        "type", "name", "description", "url", "image", "author", "published", "ingredients", "instructions", "yield",
        "prep_time", "cook_time", "total_time", "category", "cuisine", "keywords", "calories", "rating", "source",
    ),
    "job_posting": (
        "type", "title", "description", "url", "company", "location", "locations", "remote", "employment", "posted",
        "valid_until", "salary", "salary_max", "currency", "salary_unit", "identifier", "industry", "source",
    ),
    "breadcrumb": ("type", "path", "items", "source"),
}
# fmt: on
KINDS = tuple(FIELDS)
OFFER = (
    "price",
    "currency",
    "list_price",
    "availability",
    "condition",
    "name",
    "sku",
    "gtin",
    "url",
    "seller",
    "valid_until",
)
_LISTS = "images offers variants source authors keywords performers ingredients instructions locations employment items"
LISTS = frozenset(_LISTS.split())


def empty(name: str) -> list[str] | dict[str, str] | None:
    """What a field holds if the page does not say."""
    return [] if name in LISTS else {} if name == "properties" else None

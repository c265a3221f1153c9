"""What it costs to check an item by its schema: seconds of CPU for one item of ten fields, from the item to its row.

python -m benchmarks.items
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from typing import Any, TypedDict

import attrs
import msgspec
import pydantic

from shoal.sink.items import encode_rows
from shoal.spider.spider import Handler, Spider

ITEM: dict[str, Any] = {
    "sku": "B00-1234",
    "title": "A lamp with a rather long name, as shops like them",
    "price": 12.5,
    "currency": "EUR",
    "in_stock": True,
    "rating": 4.5,
    "reviews": 1234,
    "tags": ["lamp", "light", "home"],
    "sizes": {"height": 30, "width": 12},
    "url": "https://shop.example/products/b00-1234",
}
FIELDS = {
    "sku": str,
    "title": str,
    "price": float,
    "currency": str,
    "in_stock": bool,
    "rating": float,
    "reviews": int,
    "tags": list[str],
    "sizes": dict[str, int],
    "url": str,
}

KINDS: dict[str, Any] = {
    "dataclass": dataclasses.make_dataclass("DataProduct", FIELDS.items()),
    "TypedDict": TypedDict("TypedProduct", FIELDS),  # type: ignore[operator]
    "msgspec Struct": msgspec.defstruct("StructProduct", FIELDS.items()),
    "attrs": attrs.make_class(
        "AttrsProduct", {name: attrs.field(type=kind) for name, kind in FIELDS.items()}
    ),
    "pydantic": pydantic.create_model("ModelProduct", **{name: (kind, ...) for name, kind in FIELDS.items()}),
}


def measure(handler: Handler, item: object, seconds: float) -> float:
    """Microseconds an item; the best of five rounds."""
    items = [item] * 100
    best = float("inf")
    for _ in range(5):
        count, began = 0, time.process_time()
        while (took := time.process_time() - began) < seconds / 5:
            encoded = encode_rows(items, handler)
            count += len(items)
        assert not encoded.rejected, encoded.rejected[0].reason
        best = min(best, took / count)
    return best * 1e6


def handler_of(item: object) -> Handler:
    return Spider("bench").add_handler(lambda page: None, name="page", item=item)  # type: ignore[arg-type]


def main(argv: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=0.5, help="CPU time for each figure")
    seconds = options.parse_args(argv).seconds
    plain = measure(handler_of(""), ITEM, seconds)
    print(f"{'':16} {'dict':>8} {'object':>8}   µs an item, from the item to its row")
    print(f"{'no schema':16} {plain:8.2f}")
    for name, kind in KINDS.items():
        checked = handler_of(kind)
        line = f"{name:16} {measure(checked, ITEM, seconds):8.2f}"
        if name != "TypedDict":
            line += f" {measure(checked, kind(**ITEM), seconds):8.2f}"
        print(line)


if __name__ == "__main__":
    main()

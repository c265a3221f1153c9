"""Which type of schema.org is which kind of record. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.html.records.nodes import Node, Nodes
from shoal.html.records.product import product

_TYPES = {
    "product": "Product ProductGroup ProductModel ProductCollection IndividualProduct SomeProducts Vehicle Car"
    " Motorcycle MotorizedBicycle BusOrCoach DietarySupplement",
}
# Other things are products where somebody offers them.
_OFFERED = (
    "book audiobook softwareapplication mobileapplication webapplication videogame game movie musicalbum musicrelease"
    " course drug service"
)
_GOODS = _OFFERED.split()
KIND_OF = {name.lower(): kind for kind, names in _TYPES.items() for name in names.split()}
KIND_OF |= dict.fromkeys(_GOODS, "product")

_BUILD: dict[str, Callable[[Nodes, Node], dict[str, Any]]] = {"product": product}


def build(nodes: Nodes, kind: str, node: Node, syntax: str) -> dict[str, Any] | None:
    """The record of an object, or None if it is none."""
    types = nodes.types(node)
    if kind == "product" and any(name in _GOODS for name in types) and not nodes.values(node, "offers"):
        return None
    record = _BUILD[kind](nodes, node)
    if not any(value for value in record.values()):
        return None
    return {"type": kind, **record, "source": [syntax]}

"""Events: when, where, who, and what it costs. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.dates import iso_date
from shoal.html.records.nodes import Node, Nodes
from shoal.html.records.product import offers_of, sale

_MOST_PEOPLE = 100
_STATUS = {
    "eventscheduled": "scheduled",
    "eventcancelled": "cancelled",
    "eventcanceled": "cancelled",
    "eventpostponed": "postponed",
    "eventrescheduled": "rescheduled",
    "eventmovedonline": "moved_online",
}
_MODE = {
    "offlineeventattendancemode": "offline",
    "onlineeventattendancemode": "online",
    "mixedeventattendancemode": "mixed",
}


def event(nodes: Nodes, node: Node) -> dict[str, Any]:
    images = nodes.urls(node, "image", "photo")
    places = nodes.values(node, "location")
    offers = offers_of(nodes, node)
    sold = sale(nodes, node, offers, [])
    return {
        "name": nodes.text(node, "name", "summary"),
        "description": nodes.text(node, "description"),
        "url": nodes.url(node, "url"),
        "image": images[0] if images else None,
        "start": iso_date(nodes.first(node, "startDate")),
        "end": iso_date(nodes.first(node, "endDate")),
        "status": _named(nodes, node, "eventStatus", _STATUS),
        "attendance": _named(nodes, node, "eventAttendanceMode", _MODE),
        "location": next((text for place in places if (text := nodes.as_text(place))), None),
        "address": next((text for place in places if (text := address_of(nodes, place))), None),
        "performers": nodes.texts(node, "performer", "performers")[:_MOST_PEOPLE],
        "organizer": nodes.text(node, "organizer"),
        **{name: sold[name] for name in ("price", "currency", "low_price", "high_price", "availability")},
        "offers": offers,
    }


def address_of(nodes: Nodes, place: object) -> str | None:
    """ "1 High Street, Springfield, IL, 12345, US" """
    if not isinstance(place, dict):
        return None
    address = nodes.first(place, "address")
    if address is None and "postaladdress" in nodes.types(place):
        address = place
    if not isinstance(address, dict):
        return nodes.as_text(address)
    names = ("streetAddress", "addressLocality", "addressRegion", "postalCode", "addressCountry")
    parts = [text for name in names if (text := nodes.text(address, name))]
    return ", ".join(dict.fromkeys(parts)) or nodes.as_text(address)


def _named(nodes: Nodes, node: Node, name: str, known: dict[str, str]) -> str | None:
    text = (nodes.text(node, name) or "").rstrip("/").rpartition("/")[2].lower()
    return known.get(text)

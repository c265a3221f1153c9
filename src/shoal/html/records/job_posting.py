"""Job postings: title, employer, place, salary. Pure."""

from __future__ import annotations

from typing import Any

from shoal.html.records.dates import iso_date
from shoal.html.records.event import address_of
from shoal.html.records.nodes import Node, Nodes

_MOST = 50


def job_posting(nodes: Nodes, node: Node) -> dict[str, Any]:
    places = nodes.values(node, "jobLocation", "jobLocations")[:_MOST]
    kinds = nodes.texts(node, "employmentType")
    if len(kinds) == 1:
        kinds = [word for part in kinds[0].split(",") if (word := part.strip())]
    return {
        "title": nodes.text(node, "title", "name"),
        "description": nodes.text(node, "description"),
        "url": nodes.url(node, "url"),
        "company": nodes.text(node, "hiringOrganization"),
        "location": next((text for place in places if (text := _place(nodes, place))), None),
        "locations": list(dict.fromkeys(text for place in places if (text := _place(nodes, place)))),
        "remote": (nodes.text(node, "jobLocationType") or "").upper() == "TELECOMMUTE" or None,
        "employment": kinds[:_MOST],
        "posted": iso_date(nodes.first(node, "datePosted")),
        "valid_until": iso_date(nodes.first(node, "validThrough")),
        **_salary(nodes, node),
        "identifier": nodes.text(node, "identifier"),
        "industry": nodes.text(node, "industry"),
    }


def _place(nodes: Nodes, place: object) -> str | None:
    return address_of(nodes, place) or nodes.as_text(place)


def _salary(nodes: Nodes, node: Node) -> dict[str, Any]:
    given = nodes.first(node, "baseSalary", "salary", "estimatedSalary")
    amount = given if isinstance(given, dict) else {}
    currency = nodes.currency(amount) or nodes.text(node, "salaryCurrency")
    value = nodes.first(amount, "value") if amount else given
    inner = value if isinstance(value, dict) else {}
    low = nodes.first(inner, "minValue", "value") if inner else nodes.first(amount, "minValue") or value
    high = nodes.first(inner, "maxValue") if inner else nodes.first(amount, "maxValue")
    lowest, highest = nodes.price(low, currency), nodes.price(high, currency)
    unit = nodes.text(inner, "unitText") or nodes.text(amount, "unitText") or ""
    return {
        "salary": lowest and lowest.text,
        "salary_max": highest and highest.text,
        "currency": (lowest and lowest.currency) or currency,
        "salary_unit": unit.lower() or None,
    }

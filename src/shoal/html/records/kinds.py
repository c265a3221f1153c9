"""Which type of schema.org is which kind of record. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.html.records.article import article
from shoal.html.records.breadcrumb import breadcrumb
from shoal.html.records.event import event
from shoal.html.records.job_posting import job_posting
from shoal.html.records.nodes import Node, Nodes
from shoal.html.records.product import product
from shoal.html.records.recipe import recipe

_TYPES = {
    "product": "Product ProductGroup ProductModel ProductCollection IndividualProduct SomeProducts Vehicle Car"
    " Motorcycle MotorizedBicycle BusOrCoach DietarySupplement",
    "article": "Article NewsArticle BlogPosting SocialMediaPosting TechArticle ScholarlyArticle APIReference Report"
    " MedicalScholarlyArticle AdvertiserContentArticle SatiricalArticle OpinionNewsArticle AnalysisNewsArticle"
    " AskPublicNewsArticle BackgroundNewsArticle ReportageNewsArticle ReviewNewsArticle LiveBlogPosting"
    " DiscussionForumPosting",
    "event": "Event BusinessEvent ChildrensEvent ComedyEvent ConferenceEvent CourseInstance DanceEvent DeliveryEvent"
    " EducationEvent EventSeries ExhibitionEvent Festival FoodEvent Hackathon LiteraryEvent MusicEvent"
    " PerformingArtsEvent PublicationEvent BroadcastEvent OnDemandEvent SaleEvent ScreeningEvent SocialEvent"
    " SportsEvent TheaterEvent VisualArtsEvent",
    "recipe": "Recipe",
    "job_posting": "JobPosting",
    "breadcrumb": "BreadcrumbList",
}
# Other things are products where somebody offers them.
_OFFERED = (
    "book audiobook softwareapplication mobileapplication webapplication videogame game movie musicalbum musicrelease"
    " course drug service"
)
_GOODS = frozenset(_OFFERED.split())
KIND_OF = {name.lower(): kind for kind, names in _TYPES.items() for name in names.split()}
KIND_OF |= dict.fromkeys(_GOODS, "product")

_BUILD: dict[str, Callable[[Nodes, Node], dict[str, Any]]] = {
    "product": product,
    "article": article,
    "event": event,
    "recipe": recipe,
    "job_posting": job_posting,
    "breadcrumb": breadcrumb,
}


def build(nodes: Nodes, kind: str, node: Node, syntax: str) -> dict[str, Any] | None:
    """The record of an object, or None if it is none."""
    if kind == "product":
        types = nodes.types(node)
        named = [name for name in types if KIND_OF.get(name) == "product"]
        if all(name in _GOODS for name in named) and not nodes.values(node, "offers"):
            return None
    record = _BUILD[kind](nodes, node)
    if not any(record.values()):
        return None
    return {"type": kind, **record, "source": [syntax]}

"""Links of a page as tasks: which of its requests are skipped because they are known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shoal.admit import Admission
from shoal.engine.escalation import Escalation
from shoal.engine.links import Links
from shoal.engine.tally import Tally
from shoal.model import Lease, Task
from shoal.model.request import PageLinks, Request
from shoal.settings import Settings

URL = "https://a.test/list/"
OTHER = "https://a.test/other/"


class _NoEscalation:
    def placed(self, task: Task, now: float) -> Task:
        return task


def new_links(**given: Any) -> Links:
    settings = Settings(**given)
    return Links(
        settings,
        admission=Admission(settings, [URL]),
        escalation=cast(Escalation, _NoEscalation()),
        tally=Tally(),
        now=lambda: 0.0,
    )


@pytest.fixture
def links() -> Links:
    return new_links()


def lease(token: int) -> Lease:
    return Lease(token, Task(URL, id=token, host="a.test"), 0.0, 1)


def admitted(links: Links, token: int, *requests: Request) -> list[str]:
    return [task.url for task in links.admit(lease(token), requests, None)]


@pytest.mark.parametrize("base", [None, "", URL])
def test_a_link_without_a_base_is_relative_to_its_page(links: Links, base: str | None) -> None:
    assert admitted(links, 1, Request("x", "", base)) == [URL + "x"]
    links.settled(lease(1), accepted=True)
    assert admitted(links, 2, Request("x", "", base), Request("y", "", base)) == [URL + "y"]


def test_bases_may_alternate(links: Links) -> None:
    requests = [Request(href, "", base) for href in "xy" for base in (URL, OTHER, None)]
    assert sorted(admitted(links, 1, *requests, *requests)) == [
        URL + "x",
        URL + "y",
        OTHER + "x",
        OTHER + "y",
    ]


def test_what_is_no_plain_link_is_never_skipped(links: Links) -> None:
    assert len(admitted(links, 1, Request("x"))) == 1
    links.settled(lease(1), accepted=True)
    others = [
        Request("x", dedupe=False),
        Request("x", anywhere=True),
        Request("x", method="HEAD"),
        Request("x", body=b"1"),
    ]
    assert admitted(links, 2, Request("x"), *others) == [URL + "x"] * 4


def test_links_are_known_only_once_their_page_is_settled(links: Links) -> None:
    assert admitted(links, 1, Request("x")) == admitted(links, 2, Request("x")) == [URL + "x"]
    links.settled(lease(1), accepted=False)
    assert admitted(links, 3, Request("x")) == [URL + "x"]
    links.settled(lease(3), accepted=True)
    assert admitted(links, 4, Request("x")) == []


@pytest.mark.parametrize("base", [None, URL, OTHER])
def test_the_links_of_a_page_are_admitted_like_the_same_requests(base: str | None) -> None:
    for first, second in (
        (["x", "/y", "x"], ["/y", "z", "x"]),
        (["#top", "?q"], ["?q", "w", "http://b.test/"]),
    ):
        one, other = new_links(), new_links()
        for token, urls in enumerate((first, second)):
            as_requests = admitted(one, token, *(Request(url, "", base) for url in urls))
            as_links = [task.url for task in other.admit(lease(token), PageLinks(urls, "", base), None)]
            assert as_links == as_requests
            assert other.yielded(lease(token)) == len(urls)
            one.settled(lease(token), accepted=True)
            other.settled(lease(token), accepted=True)


def test_of_too_many_links_the_first_are_taken() -> None:
    links = new_links(max_links=2)
    found = links.admit(lease(1), PageLinks(["a", "b", "c"], "", URL), None)
    assert [task.url for task in found] == [URL + "a", URL + "b"]

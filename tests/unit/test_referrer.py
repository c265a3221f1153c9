"""Which page a request names as the one it comes from, what is stored of that, and what redirects leave of it."""

from __future__ import annotations

from typing import get_args

import pytest

from shoal.admit import Admission
from shoal.admit.referrer import (
    BROWSER,
    FORMS,
    NEVER,
    POLICIES,
    Referrer,
    policy_in,
    referer_to,
    restored,
    stored,
)
from shoal.model import Task
from shoal.model.request import Request
from shoal.settings import RefererPolicy, Settings

PAGE = "https://shop.example/list?page=2#top"
WHOLE, HOME = "https://shop.example/list?page=2", "https://shop.example/"
SAME, OTHER, PLAIN = "https://shop.example/p", "https://other.example/", "http://shop.example/"
PARENT = Task(PAGE, host="shop.example", id=7)


@pytest.mark.parametrize(
    ("policy", "sent"),
    [
        ("no-referrer", ["", "", ""]),
        ("same-origin", [WHOLE, "", ""]),
        ("origin", [HOME, HOME, HOME]),
        ("strict-origin", [HOME, HOME, ""]),
        ("origin-when-cross-origin", [WHOLE, HOME, HOME]),
        (BROWSER, [WHOLE, HOME, ""]),
    ],
)
def test_the_table(policy: str, sent: list[str]) -> None:
    """As in the examples of the specification."""
    assert [referer_to(url, PAGE, policy) for url in (SAME, OTHER, PLAIN)] == sent


def test_every_policy_of_the_setting_is_known() -> None:
    assert set(get_args(RefererPolicy)) == (POLICIES - {"no-referrer"}) | {NEVER, FORMS}


def test_a_long_url_is_cut_to_its_origin() -> None:
    assert referer_to(SAME, f"{HOME}{'x' * 5000}", BROWSER) == HOME


@pytest.mark.parametrize(
    ("header", "policy"),
    [
        ("", ""),
        ("bogus", ""),
        ("Origin", "origin"),
        ("origin, no-referrer, future-word", "no-referrer"),
        ("unsafe-url", BROWSER),
        ("no-referrer-when-downgrade", BROWSER),
    ],
)
def test_what_a_page_says(header: str, policy: str) -> None:
    assert policy_in(header) == policy


def header_of(setting: str, url: str, method: str = "GET", own: str = "") -> str | None:
    return Referrer(setting, PAGE, lambda: own).header_for(url, method)


def test_by_default_only_forms_name_their_page() -> None:
    assert Settings().referer == "forms"
    assert header_of("forms", SAME) is None
    assert header_of("forms", SAME, "POST") == "/list?page=2"
    assert header_of("forms", OTHER, "POST") == HOME
    assert header_of("forms", SAME, "POST", own="no-referrer") is None


def test_what_the_page_wants_counts_more() -> None:
    assert header_of(BROWSER, SAME, own="no-referrer") is None
    assert header_of("same-origin", OTHER, own="origin") == HOME


@pytest.mark.parametrize("url", [SAME, OTHER, PLAIN])
@pytest.mark.parametrize("sent", [WHOLE, HOME])
def test_what_is_stored_is_sent(sent: str, url: str) -> None:
    kept = stored(sent, url)
    assert kept is not None
    assert restored(kept, url) == sent
    assert (len(kept) < len(sent)) == (url == SAME), "of the same origin, only the path is stored"


def test_an_origin_that_begins_alike_is_another() -> None:
    assert stored("https://shop.example.org/", "https://shop.example/") == "https://shop.example.org/"


def test_a_redirect_to_another_origin_shows_the_origin_only() -> None:
    admission = Admission(Settings(any_host=True))
    request = Request(SAME, method="POST", body=b"x")
    task = admission.admit(request, PARENT, referrer=Referrer("forms", PAGE, lambda: ""))
    assert isinstance(task, Task)
    assert task.options.referer == "/list?page=2"
    referers = {}
    for url in (f"{HOME}next", OTHER, PLAIN):
        moved = admission.moved(task, url, status=307)
        assert isinstance(moved, Task)
        referers[url] = moved.options.referer
    assert referers == {f"{HOME}next": "/list?page=2", OTHER: HOME, PLAIN: None}


def test_a_link_takes_no_more_room_than_before() -> None:
    admission = Admission(Settings(any_host=True))
    task = admission.admit(Request(SAME), PARENT, referrer=Referrer("forms", PAGE, lambda: "origin"))
    assert isinstance(task, Task)
    assert task.options.referer is None

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shoal.admit import Admission
from shoal.admit.identity import fingerprint, variant
from shoal.model import Failure, Refused, Task
from shoal.model.request import Request
from shoal.settings import Settings

START = "https://a.example/"
PAGE = Task(url="https://a.example/dir/page", id=7, host="a.example", depth=2)


def admission(**settings: Any) -> Admission:
    return Admission(Settings(**settings), [START])


def admitted(result: Task | Refused) -> Task:
    assert isinstance(result, Task), result
    return result


def reason(result: Task | Refused) -> str:
    assert isinstance(result, Refused), result
    return result.reason


def test_a_link_becomes_a_task() -> None:
    admit = Admission(Settings(), [START], {"book": ("discovery", 5)}).admit
    request = Request(
        url="../b?utm_source=x", base="https://a.example/dir/sub/", handler="book", meta={"n": 1}
    )
    assert admit(request, PAGE) == Task(
        url="https://a.example/dir/b?utm_source=x",
        handler="book",
        host="a.example",
        lane="discovery",
        priority=5,
        depth=3,
        parent=7,
        meta={"n": 1},
        fingerprint=fingerprint("https://a.example/dir/b"),
        variant=variant(fingerprint("https://a.example/dir/b"), "book", {"n": 1}),
    )


def test_a_variant_is_a_page_with_its_handler_and_meta() -> None:
    crawl = Admission(Settings(), [START], first="listing")

    def of(url: str = "/b", **fields: Any) -> int | None:
        return admitted(crawl.admit(Request(url, **fields), PAGE)).variant

    assert of() is of(handler="listing") is of(dedupe=False, meta={"n": 1}) is None, "the usual"
    assert of(meta={"a": 1, "b": 2}) == of("/b?utm_id=1", meta={"b": 2, "a": 1})
    assert len({of(handler="book"), of(meta={}), of(meta={"n": 1}), of("/c", meta={"n": 1}), of()}) == 5
    old = admitted(crawl.admit(Request("/old", meta={"n": 1}), PAGE))
    assert admitted(crawl.moved(old, "/b")).variant == of(meta={"n": 1})


def test_the_request_overrides_its_handlers_defaults() -> None:
    admit = Admission(Settings(), [START], {"book": ("discovery", 5)}).admit
    request = Request(url="/b", handler="book", lane="urgent", priority=0, depth=0)
    task = admitted(admit(request, PAGE))
    assert (task.lane, task.priority, task.depth) == ("urgent", 0, 0)


def test_carries_everything_a_fetch_needs() -> None:
    request = Request(
        url="/b", method="post", headers={"X": "1"}, body=b"q", pool="home", max_attempts=3, dedupe=False
    )
    task = admitted(admission().admit(request, PAGE))
    assert (task.method, task.headers, task.body) == ("POST", {"X": "1"}, b"q")
    assert (task.pool, task.max_attempts, task.fingerprint) == ("home", 3, None)


def test_a_relative_link_without_base_is_relative_to_its_page() -> None:
    assert admitted(admission().admit(Request(url="next"), PAGE)).url == "https://a.example/dir/next"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("javascript:void(0)", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://a.example/", "scheme"),
        ("http://", "not a URL"),
        ("https://b.example/", "host"),
        ("/x.pdf", "deny"),
        ("/a/a/a", "trap: the path repeats itself"),
        ("/" + "x" * 3000, "trap: longer than 2000 characters"),
        ("data:," + "x" * 100_000, "trap: longer than 2000 characters"),
    ],
)
def test_refusals_say_why(url: str, why: str) -> None:
    assert reason(admission(deny=[r"\.pdf$"]).admit(Request(url=url), PAGE)) == why


def test_depth_is_limited() -> None:
    assert reason(admission(depth=2).admit(Request(url="/x"), PAGE)) == "depth"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://user:secret@a.example:x/",
            "ftp://user:secret@a.example/",
            "http://user:secr/secret@a.example/",
        ),
        *("http://user:secret@b.example/", "http://secret@a.example/" + "x" * 9000, "http:secret@a:b"),
    ],
)
def test_case_16_no_refusal_repeats_userinfo(url: str) -> None:
    assert "secr" not in repr(admission().admit(Request(url=url), PAGE))


def test_case_16_userinfo_is_stripped() -> None:
    assert (
        admitted(admission().admit(Request(url="https://u:p@a.example/"), PAGE)).url == "https://a.example/"
    )


def test_start_urls_choose_their_hosts_and_need_not_match_allow() -> None:
    admit = admission(allow=["/book/"], deny=["/private"]).admit
    assert reason(admit(Request(url="https://b.example/book/1"), PAGE)) == "host"
    assert admitted(admit(Request(url="https://b.example/"))).depth == 0
    assert admitted(admit(Request(url="https://b.example/book/1"), PAGE))
    assert reason(admit(Request(url="https://b.example/"), PAGE)) == "allow"
    assert reason(admit(Request(url="https://a.example/private"))) == "deny"


def test_anywhere_lifts_the_scope_but_not_the_scheme_or_the_traps() -> None:
    admit = admission(depth=0, allow=["/book/"], deny=["/x"]).admit
    assert admitted(admit(Request(url="https://b.example/x", anywhere=True), PAGE))
    assert reason(admit(Request(url="https://b.example/x"), PAGE)) == "depth"
    assert reason(admit(Request(url="ftp://b.example/x", anywhere=True), PAGE)) == "scheme"
    assert reason(admit(Request(url="https://b.example/a/a/a", anywhere=True), PAGE)).startswith("trap")


# -- redirects

LINKED = Task(
    url="https://a.example/old", id=9, parent=7, host="a.example", depth=2, attempt=2, fingerprint=1,
    history=(Failure("timeout"),),
)  # fmt: skip
STARTED = Task(url=START, id=1, host="a.example", fingerprint=1)


def test_a_redirect_continues_the_task() -> None:
    task = admitted(admission().moved(LINKED, "new?utm_id=1", ("k=v",), 301))
    assert task == Task(
        url="https://a.example/new?utm_id=1", id=9, parent=7, host="a.example", depth=2, attempt=2,
        history=LINKED.history, hops=("https://a.example/old",), renewed=1, cookies=("k=v",),
        fingerprint=fingerprint("https://a.example/new"), trail=(1,),
    )  # fmt: skip
    again = admitted(admission().moved(task, "https://www.a.example/newer"))
    assert again.hops == ("https://a.example/old", "https://a.example/new?utm_id=1")
    assert (again.host, again.cookies) == ("www.a.example", ())


def test_a_redirect_of_a_link_stays_in_scope() -> None:
    moved = admission(deny=["/no"]).moved
    assert reason(moved(LINKED, "https://b.example/")) == "host"
    assert reason(moved(LINKED, "/no")) == "deny"
    assert reason(moved(LINKED, "ftp://a.example/")) == "scheme"
    assert reason(moved(LINKED, "http://a:b:c/")) == "not a URL"
    assert reason(moved(LINKED, "/a/a/a")) == "trap: the path repeats itself"


def test_a_start_url_may_move_to_another_site_which_then_is_in_scope() -> None:
    crawl = admission(allow=["/book/"], deny=["/no"])
    there = Request(url="https://b.example/book/1")
    assert reason(crawl.admit(there, PAGE)) == "host"
    first = admitted(crawl.moved(STARTED, "https://www.b.example/"))
    assert admitted(crawl.admit(there, PAGE))
    second = admitted(crawl.moved(first, "/en/"))
    assert reason(crawl.moved(second, "https://c.example/")) == "host"
    assert reason(crawl.moved(first, "/no")) == "deny"


def test_a_start_url_may_first_move_on_its_own_site() -> None:
    crawl = admission()
    first = admitted(crawl.moved(STARTED, "https://www.a.example/"))
    assert admitted(crawl.moved(first, "https://b.example/")).host == "b.example"


def test_named_hosts_hold_after_a_start_url_moved() -> None:
    crawl = admission(hosts=["a.example"])
    assert admitted(crawl.moved(STARTED, "https://b.example/"))
    assert reason(crawl.admit(Request(url="https://b.example/x"), PAGE)) == "host"


def test_what_came_from_anywhere_may_end_anywhere() -> None:
    crawl = admission()
    outside = admitted(crawl.admit(Request(url="https://short.example/1", anywhere=True), PAGE))
    assert admitted(crawl.moved(outside, "https://b.example/x")).host == "b.example"
    assert reason(crawl.admit(Request(url="https://b.example/y"), PAGE)) == "host"


def test_a_circle_is_the_same_url_with_the_same_cookies() -> None:
    moved = admission().moved
    here = Task("https://a.example/x?b=2&a=1", host="a.example", fingerprint=1)
    assert admitted(moved(here, "")).goes_round
    assert not admitted(moved(here, "/x?a=1&b=2")).goes_round, "another spelling"
    walled = admitted(moved(here, "", ("seen=1; Path=/",)))
    assert not walled.goes_round
    assert admitted(moved(walled, "", ("seen=1; Path=/; Max-Age=5",))).goes_round, "the cookie did not help"
    assert not admitted(moved(walled, "", ("seen=2",))).goes_round
    assert admitted(Admission(Settings(cookies=False), [START]).moved(here, "", ("seen=1",))).goes_round
    login = admitted(moved(admitted(moved(here, "/login", ("seen=1",))), "/check"))
    assert not admitted(moved(login, "/x?b=2&a=1")).goes_round, "the first hop set a cookie"
    assert admitted(moved(login, "/login")).goes_round
    posted = admitted(moved(replace(here, method="POST"), "", (), 303))
    assert not posted.goes_round
    assert admitted(moved(posted, "", (), 303)).goes_round


def test_patterns_see_through_spellings() -> None:
    admit = admission(deny=["/logout", r"[?&]a=1&b=2"]).admit
    assert reason(admit(Request(url="/log%6Fut"), PAGE)) == "deny"
    assert reason(admit(Request(url="/x?b=2&a=1"), PAGE)) == "deny"
    assert reason(admission(deny=["utm_"]).admit(Request(url="/x?utm_id=1"), PAGE)) == "deny"
    assert admitted(admission(allow=["^https://a.example/x$"]).admit(Request(url="/x?utm_id=1"), PAGE))


SECRETS = {"authorization": "s", "Cookie": "s", "X-Mine": "1"}


@pytest.mark.parametrize("to", ["https://www.a.example/", "http://a.example/", "https://a.example:8443/"])
def test_case_29_credentials_stay_with_their_origin(to: str) -> None:
    task = Task(url=START, host="a.example", headers=SECRETS)
    assert admitted(admission().moved(task, to)).headers == {"X-Mine": "1"}
    assert admitted(admission().moved(task, "/same")).headers == SECRETS


@pytest.mark.parametrize(
    ("method", "status", "after"),
    [
        ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"),
        ("POST", 307, "POST"), ("POST", 308, "POST"),
        ("PUT", 302, "PUT"), ("PUT", 303, "GET"), ("HEAD", 303, "HEAD"),
    ],
)  # fmt: skip
def test_method_after_a_redirect(method: str, status: int, after: str) -> None:
    headers = {"Content-Type": "text/plain", "X": "1"}
    task = Task(url=START, host="a.example", method=method, body=b"q", headers=headers, fingerprint=1)
    moved = admitted(admission().moved(task, "/next", (), status))
    kept = after == method
    assert (moved.method, moved.body) == (after, b"q" if kept else None)
    assert moved.headers == (headers if kept else {"X": "1"})
    assert moved.fingerprint == fingerprint(moved.url, after, moved.body)


def test_what_is_never_a_duplicate_stays_so() -> None:
    assert admitted(admission().moved(Task(url=START, host="a.example"), "/x")).fingerprint is None


def test_what_is_said_of_a_refused_url_is_no_longer_than_a_url_may_be() -> None:
    settings = Settings()
    admission = Admission(settings, ["https://a.example/"])
    link = "https://b.example/" + "é" * settings.max_url_length  # six characters each, once they are encoded
    for refused in (
        admission.admit(Request(link), Task("https://a.example/", host="a.example", id=1)),
        admission.moved(Task("https://a.example/", host="a.example", parent=1), link),
    ):
        assert isinstance(refused, Refused)
        assert len(refused.url) == settings.max_url_length

from __future__ import annotations

import pytest

from shoal.admit.traps import trap
from shoal.settings import Settings

SITE = "https://a.example"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/a/b/a/b/a/b", "repeats"),
        ("/x/a/b/a/b/a/b/y.html", "repeats"),
        ("/a/a/a", "repeats"),
        ("/1/2/1/2/1/2", "repeats"),
        ("/en/x/en/y/en/z/en", "repeats"),
        ("/" + "/".join(map(str, range(33))), "segments"),
        ("/" + "x" * 2000, "longer"),
        ("/list?page=10001", "page number"),
        ("/list?a=1&page=99999999999999999999999", "page number"),
        ("/blog/page/10001/", "page number"),
        ("/list?currentPage=20000&z=1", "page number"),
        ("/calendar/2087/04", "calendar"),
        ("/Event_Calendar/2087-04-01", "calendar"),
        ("/calendar?date=2087-04", "calendar"),
        ("/kalender?date=18170401", "calendar"),
        ("/show?month=4&year=2087", "calendar"),
        ("/agenda/1799/", "calendar"),
    ],
)
def test_case_22_traps(path: str, reason: str) -> None:
    found = trap(SITE + path, Settings())
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/a/b/c", "/a/b/a/b", "/a/a/b", "/scrapy/scrapy/tree/master/scrapy"),
        *("/tiles/0/0/0/0.png", "/2011/11/11/11/", "/a////b", "/x?u=/a/a/a/a/a"),
        "/" + "/".join(map(str, range(30))),
        *(
            "/list?page=10000",
            "/blog/page/9",
            "/?p=123456",
            "/?page_id=123456",
            "/pages/123456",
            "/page/20000-leagues",
        ),
        *("/calendar/2031/04", "/calendar/1950/", "/history/1066/hastings", "/calendula/1066", "/?year=1066"),
        *("/calendar/item/12345", "/calendar?id=2087", "/film/2087"),
    ],
)
def test_honest_urls_pass(path: str) -> None:
    assert trap(SITE + path, Settings()) is None


def test_the_limits_are_settings() -> None:
    assert trap(SITE + "/a/a/a/a/a", Settings(trap_repeats=0)) is None
    assert trap(SITE + "/a/a/a/a", Settings(trap_repeats=5)) is None
    assert trap(SITE + "/a/a", Settings(trap_repeats=2)) is not None
    assert trap(SITE + "/abcdef", Settings(max_url_length=20)) == "longer than 20 characters"

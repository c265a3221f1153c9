"""No URL with a user or a password is shown, however it is written."""

from __future__ import annotations

import time

import pytest
from ada_url import URL
from hypothesis import given
from hypothesis import strategies as st

from shoal.model import Failure, Snapshot
from shoal.text import without_userinfo

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to http://me:hunter2@a.example/x?y", "to http://a.example/x?y"),
        ("to //me:hunter2@a.example", "to //a.example"),
        ("HTTP://hunter2@A/ and ftp://me:hunter2@b/", "HTTP://A/ and ftp://b/"),
        ("http://me:p@hunter2@a.example/", "http://a.example/"),
        (r"http:\\\\me:hunter2@a.example/", r"http:\\\\a.example/"),
        (r"http:\\me:hunter2@a.example/", r"http:\\a.example/"),
        ("http:/me:hunter2@a.example/", "http:/a.example/"),
        ("https:me:hunter2@a.example/", "https:a.example/"),
        ("////me:hunter2@a.example/", "////a.example/"),
        ("mail me@example.org, see http://a/@me and http://a/?q=x@y", None),
        ("no URL at all", None),
        ("", None),
    ],
)
def test_userinfo_is_taken_out(text: str, shown: str | None) -> None:
    assert without_userinfo(text) == (text if shown is None else shown)


@given(
    st.sampled_from(["http:", "https:", "HTTPS:", ""]),
    st.text("/\\\\", max_size=4),
    st.text(
        st.characters(codec="utf-8", exclude_characters="/\\\\?#", exclude_categories=["Z", "C"]), max_size=8
    ),
)
def test_whatever_a_browser_takes_for_a_password_is_gone(scheme: str, slashes: str, user: str) -> None:
    text = f"{scheme}{slashes}{user}:{SECRET}@a.example/"
    try:
        url = URL(text, base="https://base.example/x/")
    except ValueError:
        return
    if SECRET in (url.password, url.username):
        assert SECRET not in without_userinfo(text)


@pytest.mark.parametrize("piece", ["http:", "//", "@", "/", "http://a@", ":/", "a", "//a", "\\\\"])
def test_it_takes_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece)) + "@x"
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            without_userinfo(text)
            best = min(best, time.process_time() - started)
        return best

    small, large = seconds(50_000), seconds(400_000)
    assert large < 8 * 4 * small + 0.05


def test_a_failure_holds_none_whoever_makes_it() -> None:
    assert Failure("policy", f"redirected to http://me:{SECRET}@a/").detail == "redirected to http://a/"
    assert SECRET not in Snapshot(traceback=f"ValueError: http://me:{SECRET}@a/").traceback

"""Who may come in, from where, and what every answer carries."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.dashboard.viewer import Viewer, viewing
from shoal.dashboard.app import ROUTES
from shoal.dashboard.security import HEADERS
from shoal.dashboard.server import Options, dashboard


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.public], ids=lambda r: r.path)
async def test_nothing_without_a_login(stranger: Viewer, route: Any) -> None:
    status, value = await stranger.ask(route.method, re.sub(r"\{.*\}", "1", route.path))
    assert (status, value) == (401, {"error": "log in first"})


async def test_the_login_page_and_its_files_are_public(stranger: Viewer) -> None:
    for path in ("/", "/login"):
        async with stranger.http.get(path) as answer:
            assert answer.status == 200
            assert "password" in await answer.text()
            assert answer.content_type == "text/html"
    async with stranger.http.get("/static/js/login.js") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/javascript"
        tag = answer.headers["ETag"]
    async with stranger.http.get("/static/js/login.js", headers={"If-None-Match": tag}) as answer:
        assert answer.status == 304
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/none.js", "/nothing"):
        assert (await stranger.ask("GET", path))[0] == 404


async def test_logging_in_sets_a_cookie_that_scripts_and_other_sites_do_not_get(stranger: Viewer) -> None:
    body = {"token": stranger.served.token}
    async with stranger.http.post("/login", data=body, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie
    async with stranger.http.get("/") as answer:
        assert "password" not in await answer.text()
    https = {"X-Forwarded-Proto": "https"}
    async with stranger.http.post("/login", json=body, headers=https, allow_redirects=False) as answer:
        assert "secure" in answer.headers["Set-Cookie"].lower()


async def test_wrong_tokens_are_limited_and_the_right_one_is_not(
    stranger: Viewer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the usual refill, a guess comes back while a busy machine makes thirty.
    monkeypatch.setattr("shoal.dashboard.security._REFILL", 1e-3)
    statuses = [(await stranger.ask("POST", "/login", data={"token": f"guess {n}"}))[0] for n in range(30)]
    assert statuses == [401] * 10 + [429] * 20
    async with stranger.http.post("/login", data={"token": "guess"}) as answer:
        assert int(answer.headers["Retry-After"]) >= 1
    bearer = {"Authorization": f"Bearer {stranger.served.token}"}
    async with stranger.http.get("/metrics", headers=bearer) as answer:
        assert answer.status == 200
    body = {"token": stranger.served.token}
    async with stranger.http.post("/login", data=body, allow_redirects=False) as answer:
        assert answer.status == 303
    assert caplog.text.count("a wrong token from") <= 10


async def test_logging_out(viewer: Viewer) -> None:
    assert (await viewer.ask("POST", "/logout"))[0] == 403
    assert await viewer.post("/logout") == (200, {})
    assert (await viewer.ask("GET", "/api/session"))[0] == 401


# -- where a request comes from

HOST_ORDER = {"action": "block"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Shoal-CSRF": "wrong"},
        {"X-Shoal-CSRF": "RIGHT", "Origin": "https://evil.example"},
        {"X-Shoal-CSRF": "RIGHT", "Origin": "null"},
        {"X-Shoal-CSRF": "RIGHT", "Sec-Fetch-Site": "cross-site"},
        {"X-Shoal-CSRF": "RIGHT", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_foreign_page_changes_nothing(viewer: Viewer, headers: dict[str, str]) -> None:
    headers = {name: value.replace("RIGHT", viewer.csrf) for name, value in headers.items()}
    host = await viewer.a_host()
    status, value = await viewer.ask("POST", f"/api/hosts/{host}", json=HOST_ORDER, headers=headers)
    assert (status, value["error"][:8]) == (403, "refused:")
    assert (await viewer.get(f"/api/hosts/{host}"))["condition"] == "healthy"


async def test_our_own_page_does(viewer: Viewer) -> None:
    headers = {"X-Shoal-CSRF": viewer.csrf, "Origin": viewer.served.url, "Sec-Fetch-Site": "same-origin"}
    path = f"/api/hosts/{await viewer.a_host()}"
    status, value = await viewer.ask("POST", path, json=HOST_ORDER, headers=headers)
    assert (status, value["condition"]) == (200, "blocked")


async def test_a_foreign_page_neither_reads_nor_logs_in(viewer: Viewer) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert (await viewer.ask("GET", "/api/overview", headers=foreign))[0] == 403
    token = {"token": viewer.served.token}
    assert (await viewer.ask("POST", "/login", data=token, headers=foreign))[0] == 403


async def test_the_csrf_token_of_another_session_is_not_enough(viewer: Viewer) -> None:
    async with viewing(viewer.served) as other:
        await other.log_in()
        viewer.csrf = other.csrf
    assert (await viewer.post("/logout"))[0] == 403


async def test_a_name_that_is_not_ours_is_refused(viewer: Viewer) -> None:
    for name, status in {
        "evil.example": 403,
        "localhost.evil.example": 403,
        "127.0.0.1.evil.example": 403,
        "": 403,
        "localhost:9999": 200,  # through a tunnel
        "[::1]:8484": 200,
        "10.1.2.3": 200,
    }.items():
        got = await viewer.ask("GET", "/api/live", headers={"Host": name})
        assert got[0] == status, name
    assert (await viewer.ask("GET", "/healthz", headers={"Host": "shoal.internal"}))[0] == 200


async def test_a_name_it_is_told(store: str) -> None:
    async with (
        dashboard(Options(store, port=0, names=("Crawl.Example",))) as served,
        viewing(served) as viewer,
    ):
        status, _ = await viewer.ask("GET", "/api/live", headers={"Host": "crawl.example"})
        assert status == 401


async def test_every_answer_binds_the_browser(viewer: Viewer) -> None:
    asked = [
        ("GET", "/"),
        ("GET", "/static/js/app.js"),
        ("GET", "/api/overview"),
        ("GET", "/nothing"),
        ("POST", "/api/overview"),
        ("POST", "/login"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
    ]
    for method, path in asked:
        async with viewer.http.request(method, path) as answer:
            wrong = {name for name, value in HEADERS.items() if answer.headers.get(name) != value}
            assert not wrong, (path, wrong)
            caching = answer.headers["Cache-Control"]
            assert caching == ("no-cache" if path in ("/", "/static/js/app.js") else "no-store"), path
    async with viewer.http.get("/api/live", headers={"Host": "evil.example"}) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


async def test_bodies_that_are_not_as_they_should_be(viewer: Viewer) -> None:
    headers = {"X-Shoal-CSRF": viewer.csrf}
    path = f"/api/hosts/{await viewer.a_host()}"
    for status, more in (
        (415, {"data": b"action=block"}),
        (400, {"data": b"{", "headers": {"Content-Type": "application/json"}}),
        (400, {"json": {"action": "eat"}}),
        (400, {"json": {"action": "block", "seconds": -1}}),
        (400, {"json": {"action": "block", "more": 1}}),
        (400, {"json": {"action": "set"}}),
        (413, {"json": {"action": "block", "reason": "x" * 300_000}}),
    ):
        got, value = await viewer.ask("POST", path, **{**more, "headers": headers | more.get("headers", {})})
        assert got == status, value
        assert "\n" not in value["error"]
    for query in (
        "condition=fine",
        "limit=0",
        "limit=501",
        "after=x",
        "limit=nan",
    ):
        assert (await viewer.ask("GET", f"/api/hosts?{query}"))[0] == 400, query
    assert (await viewer.ask("GET", "/api/hosts?job=none"))[0] == 400
    assert (await viewer.ask("GET", "/api/hosts/none.example"))[0] == 404
    assert (await viewer.ask("GET", "/api/dead/99999999"))[0] == 404
    assert (await viewer.post("/api/jobs/none", action="pause"))[0] == 404


async def test_read_only(store: str) -> None:
    async with dashboard(Options(store, port=0, read_only=True)) as served, viewing(served) as viewer:
        await viewer.log_in()
        assert (await viewer.get("/api/session"))["read_only"] is True
        for path, body in (
            (f"/api/hosts/{await viewer.a_host()}", {"action": "block"}),
            ("/api/dead", {"action": "drop", "filter": {}, "all": True}),
            ("/api/jobs/books", {"action": "cancel"}),
        ):
            status, value = await viewer.post(path, **body)
            assert (status, value["error"][:22]) == (403, "this dashboard is read")
        assert len((await viewer.get("/api/dead"))["letters"]) == 6
        assert (await viewer.post("/logout"))[0] == 200

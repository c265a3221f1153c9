"""What the dashboard shows, and what can be done with it."""

from __future__ import annotations

from docs.fields import documented
from e2e.dashboard.viewer import SCRIPT, Viewer, claimed, viewing
from shoal.dashboard.server import Options, dashboard
from shoal.frontier import open_frontier
from shoal.frontier.values import JobSpec
from shoal.jobs.schedule import Schedule, change_schedules
from shoal.testing import WebProcess
from shoal.testing.conformance.rejecting import reject
from shoal.testing.conformance.tools import claim, make_task
from shoal.testing.servers.valkey import ValkeyServer


async def test_the_overview(viewer: Viewer) -> None:
    await viewer.hosts()
    seen = await viewer.get("/api/overview")
    assert seen.keys() == {
        "now", "rate", "in_flight", "success", "pending", "delayed", "dead", "rejected", "done", "jobs", "lanes",
        "pressure", "pace", "waiting",
        "workers", "hosts", "conditions", "leader", "schedules", "slowest_hosts",
    }  # fmt: skip
    [job] = seen["jobs"]
    assert job.keys() == set(documented("A job"))
    assert (job["job"], job["state"], job["progress"]) == ("books", "finished", 1.0)
    assert (seen["done"], seen["dead"], seen["hosts"]) == (7, 6, 2)
    assert seen["conditions"]["healthy"] == 2
    assert (await viewer.get("/api/live"))["points"][0].keys() == {
        "at", "rate", "in_flight", "pending", "success",
    }  # fmt: skip


async def test_the_past(viewer: Viewer) -> None:
    for query in ({}, {"job": "books"}):
        past = await viewer.get("/api/history", **query)
        assert past["job"] == "books"
        assert sum(point["dead"] for point in past["points"]) == 6
        assert past["points"][0].keys() == {
            "at", "pages", "fetches", "retries", "dead", "bytes", "p50", "p95", "errors",
        }  # fmt: skip
        assert {host["host"] for host in past["hosts"]} == {row["host"] for row in await viewer.hosts()}
    errors = await viewer.get("/api/errors")
    assert {(one["kind"], one["count"], one["meaning"]) for one in errors["errors"]} == {
        ("http_404", 4, "not found"),
        ("handler", 2, "the handler raised an exception"),
    }
    assert sum(sum(point["errors"].values()) for point in errors["points"]) == 6
    assert (await viewer.ask("GET", "/api/history?job=none"))[0] == 400


async def test_one_job_with_its_newest_rows_and_pages(viewer: Viewer) -> None:
    found = await viewer.get("/api/jobs/books")
    overview = await viewer.get("/api/overview")
    assert found["job"] == next(job for job in overview["jobs"] if job["job"] == "books")
    assert len(found["rows"]) == found["job"]["items"]
    for one in found["rows"]:
        assert one["row"] == {"url": one["url"], "title": SCRIPT}
        assert (one["item"], one["whole"]) == ("page", True)
    ends = [page["ending"] for page in found["pages"]]
    assert (ends.count("done"), ends.count("dead")) == (found["job"]["done"], found["job"]["dead"])
    times = [page["at"] for page in found["pages"]]
    assert times == sorted(times, reverse=True)
    missing = next(page for page in found["pages"] if page["url"].endswith("/missing/1"))
    assert (missing["kind"], missing["status"], missing["items"]) == ("http_404", 404, 0)
    assert (await viewer.ask("GET", "/api/jobs/none"))[0] == 404


async def test_pages_in_flight(viewer: Viewer) -> None:
    assert (await viewer.get("/api/flights"))["flights"] == []
    assert (await viewer.ask("GET", "/api/flights?sort=password"))[0] == 400
    assert (await viewer.ask("GET", "/api/flights?limit=100000"))[0] == 400


async def test_the_rest_of_what_can_be_seen(viewer: Viewer) -> None:
    assert (await viewer.get("/api/workers"))["workers"] == []
    fresh = await viewer.get("/api/freshness")
    assert (fresh["jobs"], fresh["job"]) == ([], None), "no job here visits its pages again"
    assert (await viewer.get("/api/proxies"))["pools"] == []
    events = (await viewer.get("/api/events"))["events"]
    assert {"job_started", "job_finished"} <= {one["event"] for one in events}
    assert events[0].keys() >= {"at", "level", "event", "message", "fields"}
    assert events == sorted(events, key=lambda one: one["id"])
    assert (await viewer.get("/api/events", limit=1))["events"] == events[-1:]
    seen = await viewer.get("/api/session")
    assert seen.keys() == {"read_only", "csrf", "store", "version"}


async def test_hosts_are_filtered_and_paged(viewer: Viewer) -> None:
    rows = await viewer.hosts()
    assert rows[0].keys() == set(documented("A host"))
    names = [row["host"] for row in rows]
    assert [row["host"] for row in await viewer.hosts(job="books")] == names
    assert [row["host"] for row in await viewer.hosts(q=names[1])] == names[1:]
    assert await viewer.hosts(condition="blocked") == []
    first = await viewer.get("/api/hosts", limit=1)
    assert (len(first["hosts"]), first["after"] is None) == (1, False)
    second = await viewer.get("/api/hosts", limit=2, after=first["after"])
    assert {row["host"] for row in first["hosts"] + second["hosts"]} == set(names)
    assert second["after"] is None
    for after in ("there", "0:5", "-1"):
        assert (await viewer.ask("GET", f"/api/hosts?after={after}"))[0] == 400, after
    assert (await viewer.ask("GET", "/api/hosts?after=0"))[0] == 200


async def test_the_place_of_a_page_of_hosts_on_a_server(valkey: ValkeyServer) -> None:
    async with dashboard(Options(valkey.url, port=0, create=True)) as served, viewing(served) as viewer:
        await viewer.log_in()
        for after in ("there", "0", "0:", "0:18446744073709551616"):
            status, value = await viewer.ask("GET", f"/api/hosts?after={after}")
            assert (status, value["error"]) == (400, "after: what the page before said"), after
        for after in ("0:0", "0:18446744073709551615"):
            assert (await viewer.ask("GET", f"/api/hosts?after={after}"))[0] == 200, after


async def test_one_host(viewer: Viewer) -> None:
    seen = await viewer.get(f"/api/hosts/{await viewer.a_host()}")
    assert seen.keys() == {"now", "queues", *documented("A host")}
    assert seen["set_by_hand"] == {
        "blocked": False, "blocked_until": None, "reason": "", "rate": None, "per_host": None,
    }  # fmt: skip


async def test_dead_letters(viewer: Viewer) -> None:
    async def count(**query: str | int) -> int:
        return len((await viewer.get("/api/dead", **query))["letters"])

    found = await viewer.get("/api/dead")
    dead_letters = found["letters"]
    assert (len(dead_letters), found["before"]) == (6, None)
    assert dead_letters[0].keys() == {
        "id", "job", "url", "host", "handler", "depth", "hops", "kind", "meaning", "at", "attempts",
    }  # fmt: skip
    assert [one["at"] for one in dead_letters] == sorted((one["at"] for one in dead_letters), reverse=True)
    assert await count(kind="handler") == 2
    assert await count(kind="handler", host=dead_letters[0]["host"]) == 1
    assert await count(job="none") == 0
    assert await count(until=dead_letters[-1]["at"]) == 0
    assert await count(since=found["now"]) == 0
    first = await viewer.get("/api/dead", limit=4)
    second = await viewer.get("/api/dead", limit=4, before=first["before"])
    assert first["letters"] + second["letters"] == dead_letters
    assert second["before"] is None
    assert (await viewer.ask("GET", "/api/dead?before=now"))[0] == 400


async def test_what_comes_from_elsewhere_stays_text(viewer: Viewer) -> None:
    [letter, _] = (await viewer.get("/api/dead", kind="handler"))["letters"]
    async with viewer.http.get(f"/api/dead/{letter['id']}") as answer:
        assert answer.content_type == "application/json"
        seen = await answer.json()
    assert seen.keys() == {
        "id", "job", "url", "host", "handler", "depth", "hops", "kind", "meaning", "at", "attempts", "item", "response",
    }  # fmt: skip
    assert SCRIPT in seen["attempts"][-1]["detail"]
    assert SCRIPT in seen["response"]["traceback"]
    assert "\x1b" not in seen["response"]["traceback"]
    assert seen["response"]["status"] == 200
    assert "<html" in seen["response"]["body"]
    [why] = (await viewer.get("/api/why", url=letter["url"]))["answers"]
    assert (why["place"], why["causes"][0]["name"]) == ("dead", "dead")
    assert SCRIPT in why["answer"]


async def test_why(viewer: Viewer, web: WebProcess) -> None:
    [answer] = (await viewer.get("/api/why", url=web.url("good")))["answers"]
    assert (answer["place"], answer["job"]) == ("done", "books")
    [answer] = (await viewer.get("/api/why", url="never.example/x", job="books"))["answers"]
    assert answer["place"] == "unknown"
    for bad in ({}, {"url": "mailto://x"}, {"url": "a b"}, {"url": "x.example", "job": "none"}):
        status, value = await viewer.ask("GET", "/api/why", params=bad)
        assert status == 400, value


async def test_machines_may_ask_too(stranger: Viewer) -> None:
    assert await stranger.ask("GET", "/healthz") == (200, {"status": "ok"})
    assert await stranger.ask("GET", "/readyz") == (200, {"status": "ready"})
    assert (await stranger.ask("GET", "/metrics"))[0] == 401
    wrong = {"Authorization": "Bearer wrong"}
    assert (await stranger.ask("GET", "/metrics", headers=wrong))[0] == 401
    bearer = {"Authorization": f"Bearer {stranger.served.token}"}
    async with stranger.http.get("/metrics", headers=bearer) as answer:
        assert answer.status == 200
        assert "shoal_store_up 1.0" in await answer.text()


# -- what can be done


async def test_a_blocked_host_is_not_asked(viewer: Viewer, store: str) -> None:
    await viewer.replay_all()
    first, second = [row["host"] for row in await viewer.hosts()]
    status, seen = await viewer.post(f"/api/hosts/{first}", action="block", reason="too slow", seconds=600)
    assert (status, seen["condition"], seen["set_by_hand"]["reason"]) == (200, "blocked", "too slow")
    assert 0 < seen["until"] - seen["now"] <= 600
    assert "too slow" in seen["causes"][0]["sentence"]
    assert await claimed(store) == {second}
    status, seen = await viewer.post(f"/api/hosts/{first}", action="unblock")
    assert (status, seen["condition"], seen["buried"]) == (200, "healthy", 0)
    assert await claimed(store) == {first, second}


async def test_limits_are_set_and_taken_back(viewer: Viewer) -> None:
    path = f"/api/hosts/{await viewer.a_host()}"
    _, seen = await viewer.post(path, action="set", rate=0.5, per_host=1)
    assert (seen["rate"], seen["cap"], seen["interval"]) == (0.5, 1, 2.0)
    _, seen = await viewer.post(path, action="set", rate=None)
    assert (seen["set_by_hand"]["rate"], seen["set_by_hand"]["per_host"]) == (None, 1)
    assert (await viewer.get("/api/events"))["events"][-1]["event"] == "host_limits_set"


async def test_jobs_are_paused_resumed_and_cancelled(viewer: Viewer, store: str) -> None:
    status, value = await viewer.post("/api/jobs/books", action="pause")
    assert (status, value["error"]) == (409, "job books is finished, not running")
    await viewer.replay_all()
    for action, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        status, value = await viewer.post("/api/jobs/books", action=action)
        assert (status, value["state"]) == (200, state)
        assert bool(await claimed(store)) == (state == "running")
        assert value["said"].startswith("job books ")


async def test_a_job_and_the_schedule_of_its_name(viewer: Viewer, store: str) -> None:
    await viewer.replay_all()
    async with open_frontier(store) as frontier:
        schedule = Schedule(JobSpec("books"), next_at=4e9, every=3600)
        await change_schedules(frontier, lambda known: {"books": schedule})
    for action, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        status, value = await viewer.post("/api/jobs/books", action=action)
        assert (status, value["state"]) == (200, state)
        assert bool(await claimed(store)) == (state == "running")
        assert value["said"].startswith("schedule books ")
        assert "; job books " in value["said"]


async def test_dead_letters_are_replayed_and_dropped_by_number(viewer: Viewer) -> None:
    dead_letters = (await viewer.get("/api/dead"))["letters"]
    ids = [one["id"] for one in dead_letters]
    assert await viewer.post("/api/dead", action="replay", ids=ids[:2]) == (200, {"count": 2})
    assert await viewer.post("/api/dead", action="replay", ids=ids[:2]) == (200, {"count": 0})
    assert await viewer.post("/api/dead", action="drop", ids=ids[2:3]) == (200, {"count": 1})
    assert {one["id"] for one in (await viewer.get("/api/dead"))["letters"]} == set(ids[3:])
    events = [
        one for one in (await viewer.get("/api/events"))["events"] if one["event"].startswith("letters_")
    ]
    assert [(one["event"], one["fields"]["count"], one["fields"]["by"]) for one in events] == [
        ("letters_replayed", 2, "dashboard"),
        ("letters_dropped", 1, "dashboard"),
    ]
    overview = await viewer.get("/api/overview")
    assert overview["jobs"][0]["state"] in ("running", "finished")  # as of a moment ago
    [why] = (await viewer.get("/api/why", url=dead_letters[0]["url"]))["answers"]
    assert why["place"] == "pending"


async def test_rejected_items_are_apart_from_dead_letters(viewer: Viewer, store: str) -> None:
    before = (await viewer.get("/api/dead"))["letters"]
    async with open_frontier(store) as frontier:
        await frontier.open_job(JobSpec("shop"))
        await frontier.add("shop", [make_task("http://a.test/")])
        [lease] = (await claim(frontier, jobs=["shop"])).leases
        await reject(frontier, lease, 3)
    assert (await viewer.get("/api/dead"))["letters"] == before
    found = (await viewer.get("/api/dead", kind="rejected", host="a.test"))["letters"]
    assert [(one["job"], one["host"]) for one in found] == [("shop", "a.test")] * 3
    assert (await viewer.get(f"/api/dead/{found[0]['id']}"))["item"].startswith('{\n  "n": ')
    assert await viewer.post("/api/dead", action="drop", ids=[found[0]["id"]]) == (200, {"count": 1})
    chosen = {"kind": "rejected", "host": "a.test"}
    assert await viewer.post("/api/dead", action="replay", filter=chosen) == (200, {"count": 2})
    assert (await viewer.get("/api/dead", kind="rejected"))["letters"] == []


async def test_dead_letters_are_chosen_by_a_filter(viewer: Viewer) -> None:
    host = (await viewer.get("/api/dead"))["letters"][0]["host"]
    wanted = {"kind": "http_404", "host": host}
    assert await viewer.post("/api/dead", action="drop", filter=wanted) == (200, {"count": 2})
    for body in ({}, {"filter": {}}, {"filter": {"kind": "x"}, "ids": [1]}, {"ids": ["x"]}):
        assert (await viewer.post("/api/dead", action="drop", **body))[0] == 400
    assert await viewer.post("/api/dead", action="drop", ids=[]) == (200, {"count": 0})
    assert await viewer.post("/api/dead", action="drop", filter={}, all=True) == (200, {"count": 4})

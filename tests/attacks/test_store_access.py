"""Somebody who can write to the store, but not to the workers: gets no secret, no file and no import of theirs.

Every job here is put into the store itself, past `shoal submit`. One worker meets all of them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from attacks.stage import Villain, html
from crash.fleet import SQLITE, Fleet
from crash.harness import Desk
from shoal.frontier.protocol import Frontier
from shoal.frontier.values import OWN_START, JobSpec
from shoal.jobs.note import JobNote, encode_note
from shoal.model import FetchOptions, Task
from shoal.testing import HostProfile, WebProcess

PAGES = 8
SECRET = "hunter2"
SPIDER = """
from shoal import Spider

spider = Spider("site", start={start!r}, rate=0, headers={{"X-Api-Key": "hunter2"}})


@spider.handler
def listing(page):
    yield {{"url": page.url}}
    yield from page.follow_all("a", listing)
"""
MODULE = "open('imported', 'w').write('yes')\nclass Policy: pass\ndef check(response): pass\n"


@pytest.fixture(scope="module")
def site() -> Iterator[WebProcess]:
    with WebProcess({"site": HostProfile("fast", pages=PAGES)}) as web:
        yield web


@pytest.fixture(params=["sqlite", "valkey"])
def store(request: pytest.FixtureRequest) -> str:
    return SQLITE if request.param == "sqlite" else str(request.getfixturevalue("valkey").url)


@pytest.fixture
def ear() -> Iterator[socket.socket]:
    """Where a database would be that the attacker names."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        yield listening


def job(name: str, output: str, *, spider: str = "site", **settings: object) -> JobSpec:
    quick = {"rate": 0.0, **settings}
    return JobSpec(
        name, spider=spider, settings=encode_note(JobNote(output.encode(), quick, "coordinator", fresh=True))
    )


def test_an_attacker_with_the_store_gets_nothing_of_a_worker(
    desk: Desk, store: str, site: WebProcess, ear: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(desk, store)
    desk.file("site.py", SPIDER.format(start=site.url("site")))
    desk.file("marker.py", MODULE)
    precious = desk.file("precious.jsonl", "mine\n")
    (desk.folder / "link.jsonl").symlink_to("/etc/shoal-was-here.jsonl")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGHOST", "db.invalid")
    database = f"postgresql://127.0.0.1:{ear.getsockname()[1]}/x"
    attacks = {
        "absolute": (job("absolute", "/var/tmp/shoal-was-here.jsonl"), "would go to the file"),
        "above": (job("above", "../shoal-was-here.jsonl"), "would go to the file"),
        "config": (job("config", "shoal.toml"), "would go to the file"),
        "hidden": (job("hidden", ".shoal/x.jsonl"), "would go to the file"),
        "link": (job("link", "link.jsonl"), "would go to the file"),
        "stdout": (job("stdout", ""), "no place for its rows"),
        "erase": (job("erase", precious), "is not from this job, and holds 5 bytes"),
        "database": (job("database", database), "this worker's password, would go to postgresql://127.0.0.1"),
        "option": (
            job("option", f"postgresql:///x?host=127.0.0.1&port={ear.getsockname()[1]}"),
            "this worker's password, would go to",
        ),
        "policy": (job("policy", "a.jsonl", policies=["marker:Policy"]), "'marker:Policy' would be imported"),
        "check": (
            job("check", "b.jsonl", challenge_check="marker:check"),
            "'marker:check' would be imported",
        ),
        "network": (job("network", "c.jsonl", allow_network=["0.0.0.0/0"]), "allow_network: '0.0.0.0/0'"),
        "summary": (job("summary", "d.jsonl", spider="shoal:summary"), "nothing says which hosts they are"),
    }
    with Villain({"/": html(b"")}) as villain:
        host = villain.url("/").split("/")[2]

        async def attack(frontier: Frontier) -> None:
            for spec, _ in attacks.values():
                await frontier.open_job(spec, OWN_START)
            await frontier.open_job(job("import", "e.jsonl", spider="marker:spider"), OWN_START)
            await frontier.open_job(job("honest", "honest.jsonl"), OWN_START)
            # A page of the honest job, on a host that shall see the worker's headers; in a session, too.
            lure = [
                Task(
                    villain.url("/"),
                    host=host,
                    handler="listing",
                    options=FetchOptions(session="s"),
                    fingerprint=7,
                )
            ]
            await frontier.add("honest", lure)

        fleet.ask(attack)
        # A file of SQLite that only its owner may write to is trusted, unless one says otherwise.
        worker = fleet.worker("-s", "trust=self", "-s", 'session_headers={"s": {"X-Api-Key": "hunter2"}}')
        honest = fleet.finishes("honest")
        assert villain.hits == []
    for name in attacks:
        fleet.reaches(lambda job: job.state == "paused", f"{name} to be paused", name)
    found = {one["job"]: one for one in fleet.sight()["jobs"]}
    for name, (_, reason) in attacks.items():
        assert reason in found[name]["trouble"], (name, found[name]["trouble"])
        assert SECRET not in found[name]["trouble"]
    assert found["import"]["workers"] == 0
    with pytest.raises(BlockingIOError):
        ear.accept()
    made = {path.name for path in desk.folder.iterdir() if not path.name.startswith(".")}
    mine = {"site.py", "marker.py", "precious.jsonl", "link.jsonl", "honest.jsonl", "e.jsonl"}
    assert {name for name in made if name.endswith((".py", ".jsonl", ".toml"))} <= mine
    assert "imported" not in made
    assert (desk.folder / "precious.jsonl").read_text() == "mine\n"
    assert sorted(fleet.urls("honest")) == sorted(site.pages_of("site"))
    assert honest.counters.dead == 1
    [letter] = fleet.letters("honest")
    assert (letter.kind, letter.task.host) == ("untrusted", host)
    assert worker.running
    assert SECRET not in worker.err

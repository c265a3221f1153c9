"""`shoal status` and `shoal dead` on a store that a crawl left behind."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from docs.fields import documented
from shoal.frontier import open_frontier
from shoal.frontier.values import Claim, Cursor, JobSpec
from shoal.model import Dead, Done, Failure, Settlement, Snapshot, Task
from shoal.valve import Valve

Cli = Callable[..., tuple[int, str, str]]

FAILURE = Failure(
    kind="http_404", detail="HTTP 404: not found\x1b[2J", status=404, elapsed=0.2, at=1.9e9, attempt=1
)
SNAPSHOT = Snapshot(
    status=404,
    headers={"Server": "evil\x1b]0;title\x07"},
    body=b"<h1>[bold]gone\x1b[31m</h1>" + b"x" * 3_000,
    traceback="Traceback (most recent call last):\nValueError: [red]no",
)


@pytest.fixture
def cli(cli: Cli, tmp_path: Path) -> Cli:
    """Runs a command line beside a store with 3 dead letters, 2 pages done and 15 pending."""
    (tmp_path / ".shoal").mkdir()
    asyncio.run(_fill(tmp_path / ".shoal" / "shoal.db"))
    return cli


async def _fill(path: Path) -> None:
    async with open_frontier(str(path)) as frontier:
        await frontier.open_job(JobSpec("books", valve=Valve(cap=20)))
        tasks = [Task(url=f"http://a.example/{n}", host="a.example", fingerprint=n) for n in range(5)]
        tasks += [Task(url=f"http://b.example/{n}", host="b.example", fingerprint=100 + n) for n in range(15)]
        await frontier.add("books", tasks[:5])
        claimed = await frontier.claim(Claim("w", ["books"], {"normal": 5}, 5))
        for number, lease in enumerate(claimed.leases):
            verdict = Dead(FAILURE, SNAPSHOT) if number < 3 else Done()
            await frontier.settle([Settlement(lease, verdict)])
        await frontier.add("books", tasks[5:], Cursor(fed_all=True))


def as_json(cli: Cli, *argv: str) -> Any:
    code, out, err = cli(*argv, "--json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out)


def told(cli: Cli) -> list[tuple[str, dict[str, Any]]]:
    return [(one["event"], one["fields"]) for one in as_json(cli, "status")["events"]]


def test_status_shows_where_the_tasks_are(cli: Cli) -> None:
    code, out, err = cli("status", "books")
    assert (code, err) == (0, "")
    for words in ("books", "running", "2 of 20 pages", "15 pending", "2 done", "3 dead", "b.example 15"):
        assert words in out


def test_status_as_json(cli: Cli) -> None:
    job = as_json(cli, "status", "books")
    assert list(job) == [*documented("A job"), "queues"]
    assert (job["job"], job["state"]) == ("books", "running")
    assert (job["admitted"], job["pending"], job["done"], job["dead"]) == (20, 15, 2, 3)
    assert job["queues"] == [{"host": "b.example", "pending": 15}]


def test_status_of_an_unknown_job_names_the_known_ones(cli: Cli) -> None:
    code, out, err = cli("status", "films")
    assert (code, out) == (2, "")
    assert "no job 'films'" in err
    assert "books" in err


def test_dead_letters_are_listed(cli: Cli) -> None:
    code, out, _ = cli("dead", "list")
    assert code == 0
    assert out.count("http_404") == 3
    assert "http://a.example/0" in out


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ([], 3),
        (["books"], 3),
        (["--job", "books"], 3),
        (["books", "--job", "books"], 3),
        (["--host", "b.example"], 0),
        (["--kind", "http_404"], 3),
        (["--kind", "timeout"], 0),
        (["--since", "1h"], 3),
        (["--until", "1h"], 0),
        (["--since", "2100-01-01"], 0),
        (["--limit", "2"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_dead_letters_are_chosen_by_filters(cli: Cli, options: list[str], number: int) -> None:
    assert len(as_json(cli, "dead", "list", *options)) == number


@pytest.mark.parametrize("family", ["dead", "rejected"])
@pytest.mark.parametrize("verb", ["list", "replay", "drop"])
def test_a_job_is_a_word_or_an_option(cli: Cli, family: str, verb: str) -> None:
    for given in (["films"], ["--job", "films"]):
        code, _, err = cli(family, verb, *given)
        assert (code, err) == (2, "shoal: no job 'films' in this store; there is: books\n")
    code, _, err = cli(family, verb, "films", "--job", "books")
    assert (code, err) == (2, "shoal: films and --job books are two jobs: name one\n")
    assert cli(family, verb, "--job", "books")[0] == 0


def test_a_dead_letter_tells_its_story_and_nothing_hostile(cli: Cli) -> None:
    number = as_json(cli, "dead", "list", "--limit", "1")[0]["id"]
    code, out, _ = cli("dead", "show", str(number))
    assert code == 0
    for words in (
        "http://a.example/", "not found", "200 ms", "HTTP 404", "Server: evil", "[bold]gone", "ValueError: [red]no",
        "more characters kept",
    ):  # fmt: skip
        assert words in out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_a_dead_letter_as_json_has_the_whole_body(cli: Cli) -> None:
    number = as_json(cli, "dead", "list", "--limit", "1")[0]["id"]
    letter = as_json(cli, "dead", "show", str(number))
    assert base64.b64decode(letter["response"]["body_base64"]) == SNAPSHOT.body
    assert letter["attempts"][-1]["kind"] == "http_404"


def test_an_unknown_dead_letter(cli: Cli) -> None:
    code, out, err = cli("dead", "show", "4711")
    assert (code, out) == (2, "")
    assert "no dead letter 4711" in err


def test_replay_puts_them_back(cli: Cli) -> None:
    code, out, err = cli("dead", "replay", "--kind", "http_404", "--limit", "2")
    assert (code, out) == (0, "")
    assert err == "2 pages queued again; run the crawl to fetch them\n"
    (job,) = as_json(cli, "status")["jobs"]
    assert (job["pending"], job["dead"]) == (17, 1)
    assert told(cli) == [
        ("letters_replayed", {"count": 2, "job": None, "host": None, "kind": "http_404", "by": "shoal dead"})
    ]


def test_drop_forgets_them(cli: Cli) -> None:
    assert cli("dead", "drop", "--host", "b.example") == (0, "", "0 dead letters dropped\n")
    assert told(cli) == []  # nothing happened
    assert cli("dead", "drop", "--all") == (0, "", "3 dead letters dropped\n")
    [(event, fields)] = told(cli)
    assert (event, fields["count"], fields["kind"]) == ("letters_dropped", 3, None)
    code, out, _ = cli("dead", "list")
    assert (code, out) == (0, "no dead letters\n")

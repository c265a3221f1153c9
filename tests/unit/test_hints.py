"""Commands that a person is told to type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.frontier import DEFAULT_STORE, hint_at
from shoal.frontier.values import JobSpec
from shoal.jobs.note import SUMMARY, nobody_works, write_note
from shoal.settings import Settings
from shoal.text import at_store, command

ROOT = Path(shoal.__file__).parent
WITH_A_STORE = (
    "add|cancel|coordinator|crawl|dead|dashboard|hosts|jobs|pause|report|resume|status"
    "|store|submit|top|up|why|worker"
)
# Words about a command, and not one to type; or the store of another.
SPOKEN = {
    "#   shoal crawl FILE.toml -o rows.jsonl",  # in a file that is written for a person
    "shoal crawl SPIDER --cache ",
    "how often `shoal submit` runs it",
    "at which times `shoal submit` runs it",
    "a site has no schedule of its own in one job: shoal submit ",
    "; see shoal crawl --help",
    "; see shoal add --help",
    "use `shoal crawl FILE.py --processes`",
    "The number that `shoal dead list` shows.",
    "if its shoal submit has ended, run it again",
    "run the shoal crawl again that it was made with",
    "nobody works on it now: the shoal crawl that it was made with goes on with it",
    "shoal dead list --store ",
    "shoal worker --lanes)",
    "a page was given up; shoal dead show tells more",
    "shoal resume {job}{at}",
    "shoal dead replay --kind login_failed{at}",
    "shoal dead list{at}",
    "(shoal coordinator FILE.py{at}, or",
    "shoal crawl SPIDER --help-args lists them",
    "shoal crawl - takes any number",
    "or give some with shoal submit",
}


@pytest.fixture(autouse=True)
def _own_store() -> Iterator[None]:
    token = at_store.set("")
    yield
    at_store.reset(token)


def texts(path: Path) -> Iterator[str]:
    text = path.read_text()
    if "shoal " not in text:
        return
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_every_command_to_type_is_written_by_the_one_helper() -> None:
    """Else it lacks the store, and is run on another one."""
    mention = re.compile(rf"shoal ({WITH_A_STORE})\b(?!\.)[^\n]*")
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] != "testing"
        for text in texts(path)
        if mention.search(text)
        and text not in ("shoal dead", "shoal top  ")
        and not any(spoken in text for spoken in SPOKEN)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (DEFAULT_STORE, "shoal status"),
        ("other.db", "shoal status --store other.db"),
        ("my store.db", "shoal status --store 'my store.db'"),
        ("redis://me:secret@queue:7000/2", "shoal status --store redis://queue:7000/2"),
        (
            "redis://queue/?prefix=mine&shards=3",
            "shoal status --store 'redis://queue:6379?shards=3&prefix=mine'",
        ),
    ],
)
def test_a_command_names_its_store_as_a_shell_reads_it(store: str, said: str) -> None:
    assert hint_at(store) == store
    assert command("status") == said


def test_what_to_do_about_jobs_that_nobody_works_on() -> None:
    hint_at("other.db")

    def spec(name: str, fed_by: str, spider: str = "books") -> JobSpec:
        note = write_note(b"", Settings(), fed_by)  # type: ignore[arg-type]
        return JobSpec(name, spider=spider, settings=note)

    assert nobody_works([]) == []
    assert nobody_works(
        [
            spec("a", "crawl", "a"),
            *(spec(f"b{n}", "coordinator") for n in range(5)),
            spec("c", "submit", SUMMARY),
        ]
    ) == [
        "no worker is running for job a: run the shoal crawl again that it was made with",
        "no worker is running for jobs b0, b1, b2 and 2 more: start one with: shoal worker FILE.py --store other.db",
        "no worker is running for job c: start one with: shoal worker --store other.db",
    ]

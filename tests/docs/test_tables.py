"""Lists in the documents that are made from code are the same as in the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from shoal import cli, errors, limits
from shoal.admit import canonical, traps
from shoal.admit.canonical import Canonicaliser
from shoal.admit.sending import sent_url
from shoal.config import NOT_SETTINGS
from shoal.model import Response, Task
from shoal.policy.outcomes import TABLE
from shoal.runtime.worker_plan import OWN
from shoal.settings import SECRET, WEIGHTS, Settings
from shoal.spider.default import summary
from shoal.spider.page import FollowOptions, Page
from shoal.testing.fuzz import TARGETS
from shoal.testing.fuzz.trial import Kind as FindingKind
from shoal.testing.web import Kind

DOCS = Path(__file__).parents[2] / "docs"
WORDS = {"page": "handler", "follow": "followed", "retry": "retry", "bury": "dead letter"}


def document(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def section(name: str, title: str) -> str:
    found = document(name).partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, f"docs/{name} has no heading {title!r}"
    return found


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_outcomes() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\w ]+) \| (.+) \|$", section("failure.md", "Every outcome"), re.MULTILINE
    )
    assert rows == [(kind, WORDS[rule.action], rule.meaning) for kind, rule in TABLE.items()]


def shown(number: float) -> str:
    """A number as docs/limits.md writes it."""
    for unit, name in ((limits.MB, "MB"), (limits.KB, "KB")):
        if number >= unit and number % unit == 0:
            return f"{number // unit:.0f} {name}"
    return f"{number:,.0f}"


def test_fixed_limits() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\w, ]+) \| .+? \| (.*?) ?\|$", section("limits.md", "Fixed"), re.MULTILINE
    )
    numbers = {name: value for name, value in vars(limits).items() if name.isupper() and len(name) > 2}
    assert [(name, number) for name, number, _ in rows] == [(n, shown(v)) for n, v in numbers.items()]
    for _, _, beyond in rows:
        for kind in set(re.findall(r"`(\w+)`", beyond)) - {"cut"}:
            assert beyond.startswith(WORDS[TABLE[kind].action]), beyond


def test_limits_that_are_settings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", section("limits.md", "Settings"), re.MULTILINE)
    assert rows == [(name, shown(getattr(Settings(), name))) for name, _ in rows]
    assert len(rows) > 5


def test_every_limit_is_enforced_somewhere() -> None:
    used = {
        word
        for path in Path(limits.__file__).parent.rglob("*.py")
        if path.stem != "limits"
        for line in path.read_text("utf-8").splitlines()
        for word in re.findall(r"\b[A-Z][A-Z0-9_]+\b", line)
        if line != f"    {word},"  # one of many that are imported
    }
    for name in vars(limits):
        if name.isupper() and len(name) > 2:
            assert name in used


def test_exit_codes() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("cli.md", "Exit codes"), re.MULTILINE)}
    raised = {
        e.exit_code for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.ShoalError)
    }
    assert codes == {0, cli.INTERRUPTED} | raised == cli.EXIT_CODES.keys()


def dropped(label: str) -> list[str]:
    line = re.search(
        rf"^{label}: (.+)$", section("urls.md", "Parameters that make no other page"), re.MULTILINE
    )
    assert line, label
    return re.findall(r"`([^`]+)`", line[1])


def test_tracking_parameters() -> None:
    assert dropped("Names that begin with") == sorted(f"{prefix}*" for prefix in canonical.TRACKING_PREFIXES)
    assert dropped("Names") == sorted(canonical.TRACKING_PARAMS)
    prefixes = {f"{prefix}*" for prefix in canonical.SESSION_PREFIXES}
    assert dropped("Session ids") == sorted(canonical.SESSION_PARAMS | prefixes)
    in_path = [name.removesuffix("…") for name in dropped("Session ids in the path")]
    assert all(canonical.SESSION_IN_PATH.fullmatch(f"{name}1") for name in in_path)
    assert len(in_path) == canonical.SESSION_IN_PATH.pattern.count("|") + 1


FORMS = re.findall(r"^\| `(\S+)` \| `(\S+)` \| `(\S+)` \|$", section("urls.md", "Two forms"), re.MULTILINE)


@pytest.mark.parametrize(("published", "sent", "canonical"), FORMS)
def test_forms_of_a_url(published: str, sent: str, canonical: str) -> None:
    assert sent_url(published) == sent
    assert Canonicaliser()(sent) == canonical


def test_trap_rules() -> None:
    text = section("urls.md", "Traps")
    assert f"more than {traps.MAX_SEGMENTS} path segments" in text
    assert f"above {traps.MAX_PAGE:,}" in text
    assert f"outside {traps.CALENDAR_YEARS.start} to {traps.CALENDAR_YEARS.stop - 1}" in text
    examples = re.findall(r"`([/?]\S*\d+|/a/b/\S+)`", text)
    assert len(examples) == 4
    for example in examples:
        url = f"https://a.example{example if example.startswith('/') else '/' + example}"
        assert traps.trap(url, Settings()), example


def test_fields_of_a_summary_row() -> None:
    url = "https://a.example/"
    row, *_ = summary(
        Page(Task(url), Response(url, 200, {"Content-Type": "text/html"}, b"<p>hello"), "summary")
    )
    assert first_column(section("results.md", "Rows of a crawl without code")) == list(row)


def test_options_of_follow() -> None:
    table = section("spiders.md", "Following links").partition("| option |")[2].partition("\n\n")[0]
    named = {name.partition("=")[0] for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
             for name in re.findall(r"`([^`]+)`", cell)}  # fmt: skip
    assert named == set(FollowOptions.__annotations__)


def test_what_a_page_has() -> None:
    cells = re.findall(r"^\| (`page.+?) \|", section("spiders.md", "Pages"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"page\.(\w+)", cell)}
    instance = {"task", "fetched_at"}
    assert named - instance == {name for name in dir(Page) if not name.startswith("_")} - instance - {
        "base", "follow", "follow_all", "paginate", "submit_form", "handler", "response",
    }  # fmt: skip


@pytest.mark.parametrize("text", [section("spiders.md", "Order: lanes and priorities"), document("words.md")])
def test_lanes_in_their_order(text: str) -> None:
    named = [word for word in re.findall(r"`(\w+)`", text) if word in WEIGHTS]
    assert named == list(WEIGHTS)


def test_kinds_of_the_chaotic_web() -> None:
    kinds = re.findall(r"^\| `(\w+)` \|", section("testing.md", "A chaotic web"), re.MULTILINE)
    assert kinds == list(get_args(Kind))


def test_fuzz_targets() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", section("testing.md", "Fuzzing"), re.MULTILINE)
    assert dict(rows) == {target.name: target.rule for target in TARGETS.values()}


def test_kinds_of_findings() -> None:
    table = section("testing.md", "Fuzzing").partition("| finding |")[2]
    assert sorted(re.findall(r"^\| (\w+) \|", table, re.MULTILINE)) == sorted(get_args(FindingKind))


NAMES = Settings.__struct_fields__


def test_settings_that_documents_compare_or_explain_exist() -> None:
    scope = first_column(section("urls.md", "Scope"))
    assert [name for name in scope if name not in NAMES] == []
    scrapy = re.findall(r"^\| `[A-Z_]+` \| `(\w+)`", document("coming-from-scrapy.md"), re.MULTILINE)
    assert len(scrapy) > 5
    assert [name for name in scrapy if name not in NAMES] == []


def test_what_a_worker_decides_for_itself() -> None:
    text = section("fleet.md", "Whose settings").partition("A host's pace")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", text)) & set(Settings.__struct_fields__)
    crawl = {"handler_timeout"}  # told of, and the job's own
    assert named - crawl == OWN | SECRET


def test_variables_that_are_no_settings() -> None:
    text = document("settings.md").partition("\n## ")[0].partition("An unknown key")[2]
    assert set(re.findall(r"`(SHOAL_[A-Z_]+)", text)) == NOT_SETTINGS


def test_a_form_says_its_content_type() -> None:
    """Nothing guesses it, so an example without it would not work."""
    for path in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            assert ('method="POST"' in block) <= ("Content-Type" in block), path

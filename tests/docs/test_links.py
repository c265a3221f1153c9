"""Every relative link in every document leads to a file, and to a heading if it names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The headings of a document as links name them: lower case, punctuation gone, blanks as hyphens."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(document: Path) -> list[str]:
    found = []
    for target in LINK.findall(prose(document)):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        inside = path.is_relative_to(ROOT)
        if not inside or not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(target)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document: Path) -> None:
    assert broken(document) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# Title\n[gone](b.md) [out](https://example.com/) [no heading](#nowhere)\n")
    assert broken(document) == ["b.md", "#nowhere"]


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        reached.add(document)
        targets = (target.partition("#")[0] for target in LINK.findall(prose(document)))
        paths = [(document.parent / target).resolve() for target in targets if target.endswith(".md")]
        waiting += [path for path in paths if path not in reached and path.is_file()]
    assert set(DOCUMENTS) - reached == set()

"""Hooks of mkdocs, which make pages of files outside docs/ that documents link to.

The same links then work on a Git host and on the site. A document of the top folder becomes a page, a source file
a page with its text, a folder a list of its files, all below project/. Links to README.md lead to the home page.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files, InclusionLevel
from pygments.lexers import find_lexer_class_for_filename

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "project/"  # the addresses of what lies outside docs/
DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DECISIONS = "adr/"
_LESS = ("api/", DECISIONS, PROJECT)  # the search shows guides before these
# Code is passed over: what looks like a link there is none.
_FENCE_OR_CODE = r"^(?P<fence>```+).*?^(?P=fence)|`[^`\n]+`"
_LINK = re.compile(rf"{_FENCE_OR_CODE}|\]\((?P<target>[^)\s]+)\)", re.DOTALL | re.MULTILINE)
_ELSEWHERE = re.compile(r"\w+:|#|/")


def on_config(config: MkDocsConfig) -> None:
    """The decisions need not be listed in mkdocs.yml."""
    found = sorted(path.name for path in (ROOT / "docs" / DECISIONS).glob("*.md"))
    found.sort(key=lambda name: name != "README.md")
    config.nav = _replaced(config.nav, [f"{DECISIONS}{name}" for name in found])


def on_files(files: Files, config: MkDocsConfig) -> None:
    waiting = list(DOCUMENTS)
    for file in files.documentation_pages():
        waiting += _outside(f"docs/{file.src_uri}", file.content_string)
    while waiting:
        path = waiting.pop()
        address = _address(path)
        if files.get_file_from_path(address) is not None:
            continue
        text = _as_document(path)
        shown = InclusionLevel.UNDEFINED if path in DOCUMENTS else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, address, content=text, inclusion=shown))
        waiting += _outside(address.removeprefix(PROJECT), text)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    address = page.file.src_uri
    if address == "index.md":
        page.meta["hide"] = ["navigation"]  # which would have one entry
    if address.startswith(_LESS):
        page.meta.setdefault("search", {"boost": 0.5})
    path = address.removeprefix(PROJECT) if address.startswith(PROJECT) else f"docs/{address}"

    def relinked(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or _ELSEWHERE.match(target):
            return match[0]
        file, mark, anchor = target.partition("#")
        there = _address(_resolved(path, file))
        return f"]({posixpath.relpath(there, posixpath.dirname(address) or '.')}{mark}{anchor})"

    return _LINK.sub(relinked, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Docstrings name documents as docs/NAME.md: links, in the API reference."""
    if not page.file.src_uri.startswith("api/"):
        return html
    return re.sub(r"\bdocs/([\w-]+)\.md\b", r'<a href="../\1.html">docs/\1.md</a>', html)


def _replaced(nav: Any, decisions: list[str]) -> Any:
    if isinstance(nav, list):
        return [_replaced(entry, decisions) for entry in nav]
    if isinstance(nav, dict):
        return {title: _replaced(entry, decisions) for title, entry in nav.items()}
    return decisions if nav == DECISIONS else nav


def _resolved(document: str, target: str) -> str:
    """The path in the repository that a link means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), target))


def _address(path: str) -> str:
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{PROJECT}{path}/index.md"
    return f"{PROJECT}{path}" if path.endswith(".md") else f"{PROJECT}{path}.md"


def _outside(path: str, text: str) -> list[str]:
    """What a document links to that is in the repository, but neither below docs/ nor the README."""
    targets = [match["target"] for match in _LINK.finditer(text)]
    local = [target.partition("#")[0] for target in targets if target and not _ELSEWHERE.match(target)]
    paths = [_resolved(path, target) for target in local]
    return [path for path in paths if _address(path).startswith(PROJECT) and (ROOT / path).exists()]


def _as_document(path: str) -> str:
    place = ROOT / path
    if place.suffix == ".md":
        return place.read_text("utf-8")
    unsearched = "---\nsearch:\n  exclude: true\n---\n"
    if place.is_dir():
        names = sorted(entry.name for entry in place.iterdir() if entry.is_file())
        listed = "".join(f"- [{name}]({name})\n" for name in names)
        return f"{unsearched}# {path}/\n\n{listed}"
    lexer = find_lexer_class_for_filename(place.name)
    language = lexer.aliases[0] if lexer else "text"
    return f"{unsearched}# {path}\n\n``````{language}\n{place.read_text('utf-8')}\n``````\n"

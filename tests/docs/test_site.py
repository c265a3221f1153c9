"""The documentation as a site: it is built once, strictly, and looked at as a browser would."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import expect, sync_playwright
from selectolax.lexbor import LexborHTMLParser

import shoal
import shoal.extend
import shoal.testing
from shoal.fetch.browser import chromium
from shoal.fetch.browser.executable import find_chromium
from shoal.settings import Settings

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
HERE = "http://site.example/"
PATIENCE = 60_000  # milliseconds, for a busy machine
NICED = Path(chromium.__file__).with_name("niced.sh")

Pages = dict[str, LexborHTMLParser]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A warning of mkdocs ends the build: a link that leads nowhere, a page that no menu has."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        assert config.strict
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> Pages:
    return {
        path.relative_to(site).as_posix(): LexborHTMLParser(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
    }


def attributes(tree: LexborHTMLParser, tag: str, name: str) -> list[str]:
    return [value for node in tree.css(f"{tag}[{name}]") if (value := node.attributes[name])]


def test_every_document_is_a_page(pages: Pages) -> None:
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    named = {path.with_suffix(".html").as_posix().replace("README", "index") for path in documents}
    assert named - pages.keys() == set()
    assert {f"project/{path.stem}.html" for path in ROOT.glob("*.md")} - pages.keys() == {
        "project/README.html"  # says in short what the home page says
    }


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: Pages) -> None:
    for name, tree in pages.items():
        loaded = [url for tag, attribute in LOADED.items() for url in attributes(tree, tag, attribute)]
        assert [url for url in loaded if urlsplit(url).netloc] == [], name
        # The only script that the theme's own one would load from elsewhere draws these.
        assert tree.css_first(".mermaid") is None, name
    for path in site.rglob("*.css"):
        assert re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*""", path.read_text("utf-8")) == []


def test_every_link_leads_to_a_page_and_its_heading(site: Path, pages: Pages) -> None:
    anchors = {name: {node.attributes["id"] for node in tree.css("[id]")} for name, tree in pages.items()}
    broken = []
    for name, tree in pages.items():
        if name == "404.html":  # shown at any address
            continue
        links = [
            link
            for tag, attribute in {**LOADED, "a": "href"}.items()
            for link in attributes(tree, tag, attribute)
        ]
        for link in links:
            url = urlsplit(urljoin(f"{HERE}{name}", link))
            if f"{url.scheme}://{url.netloc}/" != HERE:
                continue
            file = unquote(url.path).lstrip("/") or "index.html"
            there = (site / file).is_file() and (not url.fragment or unquote(url.fragment) in anchors[file])
            broken += [] if there else [f"{name}: {link}"]
    assert broken == []


def test_no_markdown_is_left_as_text(pages: Pages) -> None:
    """A Git host takes a list without a blank line before it; here it would be shown as text."""
    for name, tree in pages.items():
        for node in tree.css("article p"):
            for code in node.css("code"):
                code.decompose()
            lines = node.text().splitlines()
            assert [line for line in lines if re.match(r"\s*(?:[-*|#] |\d+\. |\|)", line)] == [], name


def test_the_search_finds_documents_but_no_source(site: Path) -> None:
    index = msgspec.json.decode((site / "search" / "search_index.json").read_bytes())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"settings.html", "cli.html", "project/ARCHITECTURE.html", "cookbook.html"} <= found
    assert [location for location in found if ".py." in location] == []


def test_light_and_dark(pages: Pages) -> None:
    schemes = {
        node.attributes["data-md-color-scheme"]
        for node in pages["index.html"].css("input[data-md-color-scheme]")
    }
    assert schemes == {"default", "slate"}


def test_every_public_name_is_in_the_reference(pages: Pages) -> None:
    api = [tree for name, tree in pages.items() if name.startswith("api/")]
    shown = {node.attributes["id"] for tree in api for node in tree.css("[id]")}
    for module in (shoal, shoal.extend, shoal.testing):
        names = {name for name in module.__all__ if name != "__version__"}
        places = {name: {f"{module.__name__}.{name}", f"shoal.{name}"} for name in names}
        assert [name for name in names if not places[name] & shown] == []


def test_every_decision_is_listed() -> None:
    decisions = ROOT / "docs" / "adr"
    titles = {path.name: path.read_text("utf-8").split("\n")[0] for path in decisions.glob("0*.md")}
    rows = re.findall(
        r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (decisions / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert {name: f"# {number}. {title}" for number, title, name in rows} == titles


def test_in_a_browser_from_the_disk(site: Path) -> None:
    """The search answers without a server, the theme is the system's, and nothing is asked of another host."""
    path = find_chromium(Settings())
    if path is None:
        pytest.skip("no Chromium on this machine")
    expect.set_options(timeout=PATIENCE)
    asked: list[str] = []
    complaints: list[str] = []
    with sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ, "SHOAL_CHROMIUM": str(path)}
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=NICED, args=flags, env=environment)
        page = browser.new_page(color_scheme="dark")
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "words.html").as_uri())
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        page.locator("input.md-search__input").click()
        page.locator("input.md-search__input").press_sequentially("guarantees")
        expect(page.locator(".md-search-result__item a", has_text="Guarantees").first).to_be_attached()
        browser.close()
    assert {url for url in asked if not url.startswith(("file:", "about:"))} == set()
    assert len(asked) > 5
    assert complaints == []

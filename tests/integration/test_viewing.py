"""`page.view()`: what the browser is given, and what it makes of it."""

from __future__ import annotations

import os
import subprocess
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shoal.fetch.browser.executable import available, find_chromium, why_not
from shoal.model import Response, Task
from shoal.settings import Settings
from shoal.spider.page import Page

URL = "https://shop.example/lamps/7"


def page(body: str | bytes, content_type: str = "text/html", url: str = URL) -> Page:
    data = body.encode() if isinstance(body, str) else body
    return Page(Task(url), Response(url, 200, {"Content-Type": content_type}, data), handler="lamp")


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that holds what the browser was asked to open."""
    asked, command = tmp_path / "asked", tmp_path / "browser"
    command.write_text(f'#!/bin/sh\necho "$1" > {asked}\n')
    command.chmod(0o755)
    monkeypatch.setattr(webbrowser, "_tryorder", [f"{command} %s"])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return asked


def test_the_browser_opens_the_page(opened: Path) -> None:
    path = page("<!doctype html><html><head lang=en><title>Ä</title></head></html>").view()
    assert opened.read_text().strip() == path.as_uri()
    assert path.parent.stat().st_mode & 0o077 == 0, "others on the machine cannot read it"
    text = path.read_text("utf-8-sig")
    assert text.startswith(f'<!doctype html><base href="{URL}"><meta ')
    assert text.endswith("><html><head lang=en><title>Ä</title></head></html>")


def test_a_page_in_another_encoding_and_with_a_base(opened: Path) -> None:
    html = '<html><meta charset="windows-1252"><base href="/other/?a=1&b=2"><p>für</p>'
    text = page(html.encode("cp1252")).view().read_text("utf-8-sig")
    assert text.startswith('<base href="https://shop.example/other/?a=1&amp;b=2">')
    assert "für" in text


@pytest.mark.parametrize(
    ("content_type", "suffix"),
    [
        ("application/json", ".json"),
        ("application/xml", ".xml"),
        ("image/png", ".png"),
        ("x/unknown", ".txt"),
    ],
)
def test_what_is_no_html_is_shown_as_it_is(opened: Path, content_type: str, suffix: str) -> None:
    body = b'<?xml version="1.0"?><a/>' if suffix == ".xml" else b"{}\xff"
    path = page(body, content_type).view()
    assert (path.suffix, path.read_bytes()) == (suffix, body)


def test_a_machine_without_a_browser(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, opened: Path
) -> None:
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    path = page("<h1>Lamp</h1>").view()
    assert str(path) in caplog.text
    assert "<h1>Lamp</h1>" in path.read_text("utf-8-sig")


def test_scripts_of_the_page_do_not_run(opened: Path) -> None:
    settings = Settings()
    if not available(settings):
        pytest.skip(why_not(settings))
    script, handler = "<script>document.title = 'ran'</script>", "document.title = 'ran'"
    html = f"""<!-- a -->{script}<!DOCTYPE html><html lang=en><head class=x>{script}</head>
        <body onload="{handler}"><p>here</p><img src=x onerror="{handler}">{script}</body></html>"""
    path = page(html, url="http://127.0.0.1:9/").view()
    chromium = [str(find_chromium(settings)), "--headless", "--no-sandbox", "--dump-dom", path.as_uri()]
    with TemporaryDirectory(dir="/tmp") as short:  # the path of its socket may have 107 characters
        env = {**os.environ, "TMPDIR": short}
        done = subprocess.run(chromium, capture_output=True, text=True, timeout=60, env=env)
    assert '<html lang="en">' in done.stdout, done.stderr
    assert "<p>here</p>" in done.stdout
    assert "<title>" not in done.stdout

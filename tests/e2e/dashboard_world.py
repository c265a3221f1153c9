"""What the dashboard is looked at over: a crawl that runs, hosts with their habits, and what a page must hold to."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from shoal.dashboard.server import Options, Served, dashboard

PATIENCE = 20.0  # seconds
SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
TAGS = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"

SPIDER = """
from shoal import Spider

spider = Spider("harbour", {start!r}, rate=5, robots=False, retry_base=0.05, retry_cap=0.1, max_attempts=20,
                breaker_failures=3, breaker_cooldown=300)

@spider.handler
def listing(page):
    if page.url.endswith("/poison"):
        raise ValueError({tags!r})
    yield {{"url": page.url, "said": {tags!r}, "hidden": "a\u202eb\x1b[2J"}}
"""


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}


class Mending(BaseHTTPRequestHandler):
    """Nothing is found but /poison, which is full of tags, and /late once it is mended."""

    mended = threading.Event()

    def do_GET(self) -> None:
        body = f"<html><title>{TAGS}</title><body>{TAGS}".encode()
        found = self.path.startswith("/poison") or (self.path == "/late" and self.mended.is_set())
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("X-Tags", "<script>window.pwned = 1</script>")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def mending_host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mending) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def dashboard_over(store: Path, **options: Any) -> Iterator[Served]:
    """In a thread, with an event loop of its own."""
    ready: queue.Queue[tuple[Served, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        end = asyncio.Event()
        async with dashboard(Options(store=str(store), port=0, create=True, **options)) as served:
            ready.put((served, asyncio.get_running_loop(), end))
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    served, loop, end = ready.get(timeout=PATIENCE)
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Crawl:
    def __init__(self, steady: str, failing: str, mending: str, store: Path) -> None:
        self.steady, self.failing, self.mending, self.store = steady, failing, mending, store

    @property
    def late(self) -> str:
        return f"http://{self.mending}/late"

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        names = ("poison", "late", *(f"gone/{n}" for n in range(4)))
        start = [f"http://{self.mending}/{name}" for name in names]
        start += [f"http://{self.failing}/p/{n}" for n in range(6)]
        start += [f"http://{self.steady}/p/{n}" for n in range(1500)]  # five minutes' worth
        (folder / "spider.py").write_text(SPIDER.format(start=start, tags=TAGS))
        command = [*SHOAL, "crawl", "spider.py", "-q", "--store", str(self.store)]
        return subprocess.Popen(command, cwd=folder, env=clean_environment())


# -- what every page must hold to: run in the page

A11Y = """() => {
  const labels = (node) => [...(node.labels ?? [])].map(one => one.textContent).join('');
  const nameOf = (node) => node.getAttribute('aria-label') || labels(node) || node.textContent || node.title;
  const seen = (node) => node.checkVisibility({visibilityProperty: true}) && node.getClientRects().length;
  const nodes = [...document.querySelectorAll('a, button, input, select, [role=img], [role=region]')].filter(seen);
  const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  return {
    nameless: nodes.filter(node => !nameOf(node).trim()).map(node => node.outerHTML.slice(0, 120)),
    bareTables: [...document.querySelectorAll('table')].filter(one => !one.caption?.textContent).length,
    sameIds: ids.filter((id, n) => ids.indexOf(id) !== n),
    headings: document.querySelectorAll('h1').length,
  };
}"""
GOOD = {"nameless": [], "bareTables": 0, "sameIds": [], "headings": 1}

# Texts that are harder to read than WCAG AA allows, whatever their size.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const [text, node] = [texts.currentNode.data.trim(), texts.currentNode.parentElement];
    const shown = text && node.checkVisibility({visibilityProperty: true}) && !node.closest(':disabled, noscript');
    if (!shown) continue;
    const both = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${node.className} ${text.slice(0, 40)}`);
  }
  return poor;
}"""

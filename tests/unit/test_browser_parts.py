"""The parts of the browser lane that need no browser."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from shoal.fetch.browser import chromium
from shoal.fetch.browser.chromium import BrowserProcesses
from shoal.fetch.browser.contexts import SharedCookies, cookies_from, cookies_of
from shoal.fetch.browser.page_network import (
    _ERRORS,
    Nature,
    decoded,
    failure_for,
    headers_of,
    nature_of,
    rendered,
)
from shoal.fetch.browser.tab import is_gone, plain
from shoal.fetch.cookie_jar import CookieJar
from shoal.policy.outcomes import TABLE
from shoal.testing.servers.server_process import wait_until

# -- answers


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("net::ERR_CERT_DATE_INVALID", "tls"),
        ("net::ERR_SSL_PROTOCOL_ERROR", "tls"),
        ("net::ERR_NAME_NOT_RESOLVED", "dns"),
        ("net::ERR_CONNECTION_REFUSED", "connect"),
        ("net::ERR_CONNECTION_TIMED_OUT", "connect_timeout"),
        ("net::ERR_CONNECTION_RESET", "reset"),
        ("net::ERR_EMPTY_RESPONSE", "reset"),
        ("net::ERR_INCOMPLETE_CHUNKED_ENCODING", "truncated"),
        ("net::ERR_CONTENT_DECODING_FAILED", "encoding"),
        ("net::ERR_INVALID_HTTP_RESPONSE", "protocol"),
        ("net::ERR_UNSAFE_PORT", "invalid_url"),
        ("net::ERR_SOMETHING_NEW at http://user:secret@a/\nCall log:", "unexpected"),
        ("", "unexpected"),
    ],
)
def test_errors_have_the_names_of_plain_fetching(error: str, kind: str) -> None:
    found, detail = failure_for(error)
    assert found == kind
    assert detail
    assert "\n" not in detail
    assert "secret" not in detail


def test_every_kind_is_in_the_table() -> None:
    assert {kind for _, kind, _ in _ERRORS} <= TABLE.keys()


@pytest.mark.parametrize(
    ("status", "headers", "nature"),
    [
        (200, {"Content-Type": "text/html; charset=x"}, "page"),
        (404, {"Content-Type": "Application/XHTML+XML"}, "page"),
        (200, {"Content-Type": "application/json"}, "file"),
        (200, {"Content-Type": "text/html", "Content-Disposition": "Attachment"}, "file"),
        (200, {"Content-Type": "text/html", "Content-Disposition": "inline"}, "page"),
        (204, {"Content-Type": "text/html"}, "file"),
        (200, {}, "unknown"),
        (200, {"Content-Type": "application/octet-stream"}, "unknown"),
    ],
)
def test_what_is_a_page(status: int, headers: dict[str, str], nature: Nature) -> None:
    assert nature_of(status, CIMultiDictProxy(CIMultiDict(headers))) == nature


def test_headers_suit_the_body() -> None:
    pairs = [
        ("content-encoding", "br"),
        ("Content-Length", "5"),
        ("X", "1"),
        ("x", "2"),
        ("Content-Type", "a/b"),
    ]
    headers = headers_of({"name": name, "value": value} for name, value in pairs)
    assert list(decoded(headers).items()) == [("X", "1"), ("x", "2"), ("Content-Type", "a/b")]
    assert rendered(headers)["content-type"] == "text/html; charset=utf-8"
    assert rendered(headers).getall("x") == ["1", "2"]


# -- errors


def test_errors_without_the_library_underneath() -> None:
    error = Exception("Page.evaluate: ReferenceError: x is not defined\n    at eval\nCall log:\n - one")
    assert plain(error) == "ReferenceError: x is not defined"
    assert plain(Exception("Strange thing: yes")) == "Strange thing: yes"
    assert is_gone(Exception("Page.click: Target page, context or browser has been closed"))
    assert not is_gone(error)


# -- cookies


class FakeContext:
    """Keeps cookies as a browser context does."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], dict[str, Any]] = {}

    async def add_cookies(self, cookies: list[dict[str, Any]]) -> None:
        for cookie in cookies:
            full = {"expires": -1, "sameSite": "Lax", **cookie}
            self.kept[cookie["domain"], cookie["path"], cookie["name"]] = full

    async def clear_cookies(self, *, name: str, domain: str, path: str) -> None:
        self.kept.pop((domain, path, name))

    async def cookies(self) -> list[dict[str, Any]]:
        return list(self.kept.values())


def jar_with(*lines: str, url: str = "https://shop.example.com/a/b") -> CookieJar:
    jar = CookieJar()
    jar.set(lines, URL(url))
    return jar


async def test_cookies_as_a_context_takes_them() -> None:
    jar = jar_with(
        "a=1", "b=2; Domain=example.com; Path=/; Secure; HttpOnly; SameSite=Strict", "c=3; Path=/a"
    )
    assert cookies_of(jar) == {
        ("shop.example.com", "/a", "a"): {
            "name": "a", "value": "1", "domain": "shop.example.com", "path": "/a", "secure": False, "httpOnly": False,
        },
        (".example.com", "/", "b"): {
            "name": "b", "value": "2", "domain": ".example.com", "path": "/", "secure": True, "httpOnly": True,
            "sameSite": "Strict",
        },
        ("shop.example.com", "/a", "c"): {
            "name": "c", "value": "3", "domain": "shop.example.com", "path": "/a", "secure": False, "httpOnly": False,
        },
    }  # fmt: skip


async def test_cookies_of_a_redirect_follow_the_jars_rules() -> None:
    lines = ("a=1; Path=/", "b=2; Domain=other.example", "c=3; Domain=com", "d=4; Domain=co.uk")
    assert [cookie["name"] for cookie in cookies_from(lines, "https://shop.example.com/")] == ["a"]


async def test_changes_go_from_side_to_side() -> None:
    jar, context = jar_with("kept=1; Path=/", "gone=1; Path=/", "changed=1; Path=/"), FakeContext()
    shared = SharedCookies(context, jar)  # type: ignore[arg-type]
    await shared.to_context()
    assert len(context.kept) == 3

    host = "shop.example.com"
    del context.kept[host, "/", "gone"]
    context.kept[host, "/", "changed"]["value"] = "2"
    new = {
        "name": "new",
        "value": "n",
        "domain": ".example.com",
        "path": "/x",
        "expires": 4e9,
        "httpOnly": True,
    }
    context.kept[".example.com", "/x", "new"] = new
    await shared.to_jar()
    assert {cookie.name: cookie.value for cookie in jar} == {"kept": "1", "changed": "2", "new": "n"}
    assert [one.value for one in jar.cookies_for(URL("https://www.example.com/x")) if one.name == "new"] == [
        "n"
    ]

    jar.delete(next(cookie.key for cookie in jar if cookie.name == "kept"))
    jar.set(["later=1; Path=/"], URL(f"https://{host}/"))
    await shared.to_context()
    assert {name for _, _, name in context.kept} == {"changed", "new", "later"}


async def test_what_the_jar_does_not_take_leaves_the_context_too() -> None:
    jar, context = CookieJar(), FakeContext()
    shared = SharedCookies(context, jar)  # type: ignore[arg-type]
    await context.add_cookies([{"name": "super", "value": "1", "domain": ".co.uk", "path": "/"}])
    await shared.to_jar()
    assert len(jar) == 0
    await shared.to_context()
    assert not context.kept


async def test_cookies_without_a_name_stay_in_the_context() -> None:
    """A jar would send them as "=1"."""
    jar, context = CookieJar(), FakeContext()
    shared = SharedCookies(context, jar)  # type: ignore[arg-type]
    await context.add_cookies([{"name": "", "value": "1", "domain": "shop.example.com", "path": "/"}])
    await shared.to_jar()
    assert len(jar) == 0
    await shared.to_context()
    assert len(context.kept) == 1


# -- processes


@pytest.mark.skipif(sys.platform != "linux", reason="known from /proc")
def test_a_family_is_found_measured_and_ended() -> None:
    """A driver that is our child, a browser that is the driver's, and a child of that."""
    browser = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {browser!r}], stdin=subprocess.PIPE); "
    code += "print(p.pid, flush=True); p.wait(); input()"
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        processes = BrowserProcesses(pid)
        assert (processes.browser, processes.driver) == (pid, driver.pid)
        wait_until(lambda: len(processes.pids()) == 3, 10, "no third process")
        assert processes.memory() > 3_000_000
        processes.kill()
        wait_until(lambda: processes.pids() == [driver.pid], 10, "still there")
        processes.kill_driver()
        assert driver.wait(10) != 0
        assert processes.pids() == []
        processes.kill()
        processes.kill_driver()
    finally:
        driver.kill()
        driver.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="known from /proc")
def test_a_script_that_waits_for_the_browser_belongs_to_it() -> None:
    """As Debian's chromium-headless-shell is one. It leads the process group, and is above the browser."""
    script = ["sh", "-c", "sh -c 'echo $$; cat; :'; :"]
    code = f"import subprocess; subprocess.run({script!r}, start_new_session=True); input()"
    driver = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        processes = BrowserProcesses(pid)
        assert processes.driver == driver.pid
        wait_until(lambda: len(processes.pids()) == 4, 10, "no fourth process")
        assert os.getpgid(pid) not in (pid, driver.pid)
        processes.kill()
        wait_until(lambda: processes.pids() == [driver.pid], 10, "still there")
    finally:
        driver.kill()
        driver.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="known from /proc")
def test_a_strangers_process_is_not_taken_for_the_driver() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert BrowserProcesses(child.pid).driver is None  # its parent is this process, not a child of it
    finally:
        child.kill()
        child.communicate()


def test_what_cannot_be_looked_at_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"/proc/7/statm": "100 30 10 1 0 1 0"}
    monkeypatch.setattr(chromium, "_read", lambda path: texts.get(path, ""))
    assert chromium._memory(7) == 20 * os.sysconf("SC_PAGE_SIZE")
    assert chromium._memory(8) == 0


def test_the_launcher_ships_ready_to_run() -> None:
    assert os.access(chromium._NICED, os.X_OK)


@pytest.mark.slow
def test_a_folder_is_removed_though_somebody_still_writes_to_it(tmp_path: Path) -> None:
    """As a process does that was killed and has not ended yet."""
    folder = tmp_path / "profile"
    folder.mkdir()
    for number in range(2_000):  # so that it takes a moment
        (folder / str(number)).touch()
    writing = threading.Event()

    def write() -> None:
        until = time.monotonic() + 0.5
        number = 0
        while time.monotonic() < until and folder.exists():
            with suppress(FileNotFoundError):
                (folder / f"more-{(number := number + 1)}").touch()
            writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert writing.wait(20)
    chromium._remove(folder)
    writer.join()
    assert not folder.exists()

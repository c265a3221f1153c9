"""One browser: Chromium and the program that drives it, from their start to their end.

It reaches the network only through the doors of its contexts: it resolves no names, and requests of no context go to a
port where nobody listens. It runs at a lower priority than we do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.fetch.browser.executable import is_headless_shell
from shoal.fetch.browser.gate import Door

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright


log = logging.getLogger("shoal")

_NICED = Path(__file__).with_name("niced.sh")
_NICE = 10
_START = 30.0  # seconds
_END = 3.0
_REMOVALS = 20
_HEAP = 768  # megabytes for the scripts of a tab; a tab that needs more dies alone
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One target a page: requests of its frames are seen with the rest.
    "--disable-site-isolation-trials",
    "--block-new-web-contents",  # for a headless shell, which does not block popups otherwise
    f"--js-flags=--max-old-space-size={_HEAP}",
    # The network only through the doors.
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name in other versions
)
# A headless shell names no language otherwise, as no person's browser does. A full browser names the machine's.
_OF_SHELLS = ("--accept-lang=en-US,en",)
_NOT_THESE = ["--disable-popup-blocking", "--disable-ipc-flooding-protection"]  # defaults of playwright


class LaunchError(Exception):
    """The browser does not start. The message is one line."""


class Chromium:
    def __init__(self, playwright: Playwright, browser: Browser, processes: BrowserProcesses) -> None:
        self.processes = processes
        self.pages = 0  # opened so far
        self.tabs = 0  # open now
        self.memory = 0  # bytes when last looked at; 0: not known
        self.on_lost: Callable[[], None] = lambda: None  # called when it ends by itself
        self._playwright = playwright
        self._browser = browser
        self._ending: asyncio.Task[None] | None = None
        self._folders = processes.folders()
        browser.on("disconnected", self._disconnected)

    def __repr__(self) -> str:
        state = "" if self.alive else ", dead"
        return f"<Chromium {self.pid}: {self.tabs} tabs, {self.pages} pages, {self.memory >> 20} MB{state}>"

    @classmethod
    async def start(cls, path: Path, user_agent: str) -> Chromium:
        """Takes a second or so."""
        from playwright.async_api import Error, async_playwright

        try:
            playwright = await async_playwright().start()
        except (Error, OSError) as error:
            raise LaunchError(f"playwright does not start: {_first_line(error)}") from None
        try:
            async with asyncio.timeout(2 * _START):
                browser = await _launch(playwright, path, user_agent)
                session = await browser.new_browser_cdp_session()
                info = await session.send("SystemInfo.getProcessInfo")
        except (Error, TimeoutError) as error:
            await _quietly(playwright.stop())
            raise LaunchError(f"{path} does not start: {_reason(error)}") from None
        except BaseException:
            await _quietly(playwright.stop())
            raise
        pid = next(process["id"] for process in info["processInfo"] if process["type"] == "browser")
        processes = BrowserProcesses(pid)
        if processes.driver is not None:
            os.setpriority(os.PRIO_PROCESS, processes.driver, _NICE)
        return cls(playwright, browser, processes)

    @property
    def pid(self) -> int:
        return self.processes.browser

    @property
    def alive(self) -> bool:
        return self._ending is None and self._browser.is_connected()

    @property
    def ended(self) -> bool:
        """Whether its processes and folders are gone."""
        return self._ending is not None and self._ending.done()

    async def context(self, door: Door) -> BrowserContext:
        """A new, empty context."""
        return await self._browser.new_context(
            # Not the user and password: playwright would then stop every request on its way.
            proxy={"server": door.url, "bypass": "<-loopback>"},
            service_workers="block",
            accept_downloads=False,
        )

    async def measure(self) -> int:
        self.memory = await asyncio.to_thread(self.processes.memory)
        return self.memory

    def kill(self) -> None:
        """Kills it at once. Open pages fail."""
        self.processes.kill()

    def close(self) -> asyncio.Task[None]:
        """Ends it, by force if necessary. May be called more than once."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._close())
        return self._ending

    async def _close(self) -> None:
        folders = {*self._folders, *self.processes.folders()}
        await _quietly(self._browser.close())
        self.processes.kill()
        await _quietly(_gone(folders))  # the driver removes them, but not once it is told to stop
        await _quietly(self._playwright.stop())
        self.processes.kill_driver()
        for folder in folders:  # left by a browser that was killed, or a driver that hangs
            await asyncio.to_thread(_remove, folder)

    def _disconnected(self, _: object) -> None:
        if self._ending is None:
            self.on_lost()
            self.close()


async def _launch(playwright: Playwright, path: Path, user_agent: str) -> Browser:
    from playwright.async_api import Error

    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    niced = os.access(_NICED, os.X_OK)
    options: dict[str, Any] = {
        "executable_path": _NICED if niced else path,
        "env": {**environment, "SHOAL_CHROMIUM": str(path)},
        "args": [*_FLAGS, *(_OF_SHELLS if is_headless_shell(path) else ()), f"--user-agent={user_agent}"],
        "ignore_default_args": _NOT_THESE,
        "timeout": _START * 1000,
        # We handle signals: pages in flight are finished first.
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
    is_root = os.geteuid() == 0
    try:
        return await playwright.chromium.launch(chromium_sandbox=not is_root, **options)
    except Error as error:
        if is_root or "sandbox" not in str(error).lower():
            raise
    log.warning("this machine or container does not allow Chromium its sandbox: it runs without one")
    return await playwright.chromium.launch(chromium_sandbox=False, **options)


async def _quietly(doing: Any) -> None:
    """A browser that ends may be dead already, or hang."""
    with suppress(Exception):
        async with asyncio.timeout(_END):
            await doing


async def _gone(folders: Iterable[Path]) -> None:
    profiles = [folder for folder in folders if is_profile(folder)]
    while any(map(Path.exists, profiles)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def _remove(folder: Path) -> None:
    """Tries again, because a killed process may still write while it dies."""
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def _reason(error: BaseException) -> str:
    """The browser's last words, if it said why it ends."""
    said = re.search(r":FATAL:[^\]]*\] *(.+)", str(error))
    return said[1][:200] if said is not None else _first_line(error)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or "it does not answer"
    return text.splitlines()[0][:200]


# -- the processes of a browser, their memory, and how they are killed
#
# Read from /proc. Without /proc the memory is 0 (not known), and only the browser's process group is killed.


_PAGE = os.sysconf("SC_PAGE_SIZE")


class BrowserProcesses:
    """A browser, its child processes, and the driver process of playwright."""

    def __init__(self, browser: int) -> None:
        self.browser = browser
        self.driver = _driver_of(browser)
        self._group = _group_of(browser, self.driver)
        self._born = {pid: _born(pid) for pid in (browser, self.driver) if pid is not None}

    def __repr__(self) -> str:
        return f"<BrowserProcesses of {self.browser}: {len(self.pids())} processes>"

    def pids(self) -> list[int]:
        """The running processes."""
        return descent(*filter(self._is_running, self._born))

    def profile(self) -> Path | None:
        """The profile folder that was made for this browser."""
        for word in _read(f"/proc/{self.browser}/cmdline").split("\0"):
            name, _, path = word.partition("=")
            if name == "--user-data-dir" and is_profile(Path(path)):
                return Path(path)
        return None

    def folders(self) -> list[Path]:
        """The folders that were made for this browser: its profile, and the one with its socket."""
        profile = self.profile()
        if profile is None:
            return []
        with suppress(OSError):
            socket = Path(os.readlink(profile / "SingletonSocket")).parent
            if ".chromium." in socket.name.lower():
                return [profile, socket]
        return [profile]

    def memory(self) -> int:
        """Bytes; shared memory counts once. Takes some milliseconds."""
        return sum(map(_memory, self.pids()))

    def kill(self) -> None:
        """Kills all but the driver, which notices and tidies up."""
        for pid in self.pids():
            if pid != self.driver:
                _kill(pid)
        with suppress(OSError):
            if self._group is not None and self._is_running(self.browser):
                os.killpg(self._group, signal.SIGKILL)

    def kill_driver(self) -> None:
        if self.driver is not None and self._is_running(self.driver):
            _kill(self.driver)

    def _is_running(self, pid: int) -> bool:
        """A pid may belong to another process by now."""
        return _born(pid) == self._born[pid] and _state(pid) not in ("Z", "X")


def children_of(pid: int) -> list[int]:
    """The running children of a process."""
    return _children().get(pid, [])


def descent(*pids: int) -> list[int]:
    """The processes themselves, their children, and so on."""
    children = _children()
    found = list(dict.fromkeys(pids))
    for pid in found:  # which grows
        found += children.get(pid, ())
    return list(dict.fromkeys(found))


def _children() -> dict[int, list[int]]:
    """All running processes by their parents. Not every kernel lists children."""
    found: dict[int, list[int]] = {}
    with suppress(OSError):  # there is no /proc
        for pid in filter(str.isdigit, os.listdir("/proc")):
            fields = _stat(int(pid))
            if fields and fields[0] not in ("Z", "X"):
                found.setdefault(int(fields[1]), []).append(int(pid))
    return found


def is_profile(folder: Path) -> bool:
    """Whether playwright made the folder for one browser."""
    return folder.name.startswith("playwright_")


def _memory(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    # The kernel does not show this of a process in a sandbox.
    numbers = _read(f"/proc/{pid}/statm").split()
    return (int(numbers[1]) - int(numbers[2])) * _PAGE if numbers else 0


def _driver_of(browser: int) -> int | None:
    """Our child among those above the browser: no other process is taken for ours. Between the two may be a script that
    waits for the browser's end, as Debian's chromium-headless-shell does."""
    above = _parent(browser)
    while above is not None and (next_above := _parent(above)) != os.getpid():
        above = next_above
    return above


def _group_of(browser: int, driver: int | None) -> int | None:
    """The process group that the driver made for the browser."""
    with suppress(OSError):
        group = os.getpgid(browser)
        if group not in (os.getpgrp(), driver and os.getpgid(driver)):
            return group
    return None


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _born(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if fields else None


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else "R"


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

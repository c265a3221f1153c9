"""The benchmark of what remembers URLs: it counts what a way forgets or invents, and the bytes of its own keys only."""

from __future__ import annotations

from pathlib import Path

from benchmarks.dedupe import by_set, compare, sha1, stored_bytes, table

from shoal.testing.servers import ValkeyServer


def test_exact_ways_make_no_mistake_and_no_way_forgets() -> None:
    rows = list(compare(2_000))
    exact, of_sha1, of_urls = rows[2:]
    assert not any(row.refused for row in rows[2:])
    assert not any(row.forgotten for row in rows)
    assert 0 < exact.stored < of_sha1.stored < of_urls.stored


def test_a_new_url_with_the_mark_of_another_is_refused(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        kept = by_set(server, "the host only", 10_000, lambda url: url.split("/")[2])
    assert (kept.refused, kept.forgotten) == (9_000, 0)  # there are 1,000 hosts
    assert kept.line().endswith("| 9,000 | 90.0000 % | 100.0000 % | 0 |")
    assert table([kept]).splitlines()[2] == kept.line()


def test_bytes_are_those_of_keys_that_match(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        server.command("SET", "{shoal:0}:seen:1", "x" * 1_000)
        server.command("SET", "{shoal:0}:other", "x" * 100_000)
        assert 1_000 < stored_bytes(server, "*:seen:*") < 2_000


def test_sha1_is_as_long_as_with_scrapy_redis() -> None:
    assert len(sha1("http://host.test/")) == 40

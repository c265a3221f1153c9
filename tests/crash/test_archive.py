"""An archive whose crawl is killed, or whose disk is full: every page once, and every record whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.outputs.cases import CASES
from benchmarks.outputs.killing import Killing
from benchmarks.outputs.site import Site
from warcio.archiveiterator import ArchiveIterator

from crash.harness import FAST, FAULTS, ROWS, Desk, Process
from shoal.archive.index import Index, rebuild
from shoal.sink.warc_files import place_of
from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import ValkeyServer

PAGES = 60
KILLS = 3
SECONDS = 0.5  # between two kills
SMALL = ("-s", "archive_file_size=30000")  # so that there are many files


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(PAGES) as site:
        yield site


def check_files(folder: Path) -> Counter[str]:
    """All records are valid, revisits refer to records, and the index is that of the files. Returns the URLs."""
    urls: Counter[str] = Counter()
    ids, targets = set(), set()
    for path in sorted(folder.glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.content_stream().read()
                head = record.rec_headers
                ids.add(head.get_header("WARC-Record-ID"))
                targets |= {head.get_header(name) for name in ("WARC-Refers-To", "WARC-Concurrent-To")}
                if record.rec_type in ("response", "revisit"):
                    urls[head.get_header("WARC-Target-URI")] += 1
    assert targets - {None} <= ids
    index = Index(folder)
    noted = [(place.file, place.offset, place.entry) for place in index.all()]
    index.close()
    rebuild(folder)
    index = Index(folder)
    assert noted == [(place.file, place.offset, place.entry) for place in index.all()]
    index.close()
    return urls


def check_end(log: Path, folder: Path) -> None:
    """What the log of the outputs says is where the last file ends."""
    *_, last = log.read_text().splitlines()
    [position] = [end for name, end in json.loads(last).items() if name.startswith("_archive=")]
    number, offset = place_of(position)
    files = sorted(folder.glob("*.warc.gz"))
    assert (len(files), files[-1].stat().st_size) == (number + 1, offset)


@pytest.mark.parametrize("processes", [2])
def test_a_crawl_is_killed(desk: Desk, site: Site, processes: int) -> None:
    case = CASES["archive"]
    with case.servers(desk.folder) as places:
        killing = Killing(site, desk.start, places.outputs, KILLS, seed=processes, seconds=SECONDS)
        last = killing.crawl(processes, *case.options, *SMALL)
        assert isinstance(last, Process)
        assert last.code() == 0, last.err
        assert case.judge(places, site)[0] == []
    folder = desk.folder / "archive"
    assert set(check_files(folder).values()) == {1}
    check_end(next(desk.folder.glob(".*.commits")), folder)


def test_a_crawl_with_an_archive_in_an_object_store_is_killed(desk: Desk, site: Site) -> None:
    case = CASES["archive in s3"]
    with case.servers(desk.folder) as places:
        killing = Killing(site, desk.start, places.outputs, KILLS, seed=3, seconds=SECONDS)
        last = killing.crawl(1, *case.options, *SMALL)
        assert isinstance(last, Process)
        assert last.code() == 0, last.err
        assert case.judge(places, site)[0] == []


def test_workers_of_one_folder_are_killed(desk: Desk, site: Site, valkey: ValkeyServer) -> None:
    case = CASES["archive"]
    with case.servers(desk.folder) as places:
        killing = Killing(site, desk.start, places.outputs, KILLS, seed=7, seconds=SECONDS)
        killing.fleet(valkey.url, *case.options, *SMALL)
        assert case.judge(places, site)[0] == []
    assert set(check_files(desk.folder / "archive").values()) == {1}


def test_a_full_disk(desk: Desk) -> None:
    with WebProcess({"site": HostProfile("fast", pages=100, body_bytes=600)}) as web:
        command = ("crawl", web.url("site"), "-o", ROWS, "--archive", "archive", *FAST)
        stopped = desk.run("archive_full", "2", *command, program=FAULTS)
        assert stopped.code() == 3, stopped.err
        assert "cannot write the archive archive: No space left on device; nothing is lost" in stopped.err
        assert "Traceback" not in stopped.err
        desk.finish(*command)
        urls = check_files(desk.folder / "archive")
        assert {url for url in urls if "robots.txt" not in url} == set(web.pages_of("site"))
    assert set(urls.values()) == {1}
    check_end(next(desk.folder.glob(".*.commits")), desk.folder / "archive")

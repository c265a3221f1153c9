"""An archive in an object store: a real server that speaks S3."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from warcio.archiveiterator import ArchiveIterator

import shoal
from shoal import Page, Spider
from shoal.archive.reader import archive_files
from shoal.archive.record_id import new_id
from shoal.archive.records import Exchange, Metadata, Records, encode
from shoal.cli import run
from shoal.errors import SinkError, UsageError
from shoal.model import Response, Task
from shoal.runtime.submit import place_on_fleet
from shoal.settings import Settings
from shoal.sink.objects.object_archive import ObjectArchive, spool_folder
from shoal.sink.objects.object_parts import MANIFEST, read_name
from shoal.sink.objects.object_store import ObjectStore
from shoal.sink.ownership import FileClaim, Owner
from shoal.sink.warc_files import place_of
from shoal.testing.servers.s3 import S3Front, S3Server

pytest.importorskip("obstore")
PAGES = 30
URL = "s3://bucket/site/pages"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def front(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Front]:
    server.forget()
    server.make_bucket("bucket")
    monkeypatch.chdir(tmp_path)
    with S3Front(server) as front:
        for name, value in server.environment_for(front.url).items():
            monkeypatch.setenv(name, value)
        yield front


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"<h1>{request.path}</h1>" + request.path * 50)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def a_spider(site: str, pages: range = range(PAGES)) -> Spider:
    spider = Spider("site", [f"{site}/{n}" for n in pages], rate=0, robots=False)

    @spider.handler
    def page(page: Page) -> Iterator[object]:
        yield {"n": int(page.url.rpartition("/")[2])}

    return spider


async def crawl(spider: Spider, archive: str = URL, **options: object) -> None:
    given = {"archive_file_size": 5000, "allow_network": ["127.0.0.0/8"], **options}
    await shoal.crawl(spider, store="queue.db", output="rows.jsonl", archive=archive, **given)  # type: ignore[arg-type]


def archived() -> Counter[int]:
    """The pages in the files that the list names. There are no other files."""
    store = ObjectStore(URL)
    sizes = store.sizes()
    [listed] = [json.loads(store.get(key) or b"") for key in sizes if key.endswith(".json")]
    assert listed["files"] == {key: size for key, size in sizes.items() if key.endswith(".warc.gz")}
    assert listed["finished_at"]
    pages: Counter[int] = Counter()
    for name in listed["files"]:
        for record in ArchiveIterator(io.BytesIO(store.get(name) or b""), check_digests="raise"):
            record.content_stream().read()
            if record.rec_type == "response":
                pages[int(record.rec_headers.get_header("WARC-Target-URI").rpartition("/")[2])] += 1
    return pages


async def test_full_files_are_uploaded_and_the_last_one_at_the_end(front: S3Front, site: str) -> None:
    await crawl(a_spider(site), max_pages=PAGES // 2)
    await crawl(a_spider(site))
    assert archived() == Counter(range(PAGES))
    names = [name for name in ObjectStore(URL).sizes() if name.endswith(".warc.gz")]
    here = spool_folder(URL, "site").glob("*.warc.gz")
    assert len(names) > 3 > len(list(here))
    [index] = [name for name in ObjectStore(URL).sizes() if name.endswith(".cdxj")]
    assert (ObjectStore(URL).get(index) or b"").count(b"\n") >= PAGES


def opened() -> ObjectArchive:
    journal = ObjectArchive(ObjectStore(URL), "site", limit=1500)
    journal.claim(FileClaim(Owner("site", 1.5)))
    return journal


def record(number: int) -> Records:
    url = f"http://shop.example/{number}"
    response = Response(url, 200, {"Content-Type": "text/html"}, b"%d " % number * 300)
    return encode(Exchange(id=new_id(), task=Task(url), response=response, metadata=Metadata(page=True)))


def test_a_job_that_had_ended_goes_on(front: S3Front) -> None:
    journal, committed = opened(), 0
    for number in range(20):
        committed = journal.append(committed, [record(number)])
        journal.append(committed, [record(99)])  # a transaction that fails
        if number % 5 == 0:
            journal.finish(committed)
            assert archived() == Counter(range(number + 1))
        journal.tend()
    journal.finish(committed)
    journal.finish(committed)
    journal.close()
    assert archived() == Counter(range(20))


def test_the_store_goes_back(front: S3Front) -> None:
    journal, ends = opened(), [0]
    for number in range(20):
        ends.append(journal.append(ends[-1], [record(number)]))
    last = max(end for end in ends if place_of(end)[0] == place_of(ends[-1])[0] - 1)  # in the file before
    journal.finish(ends[-1])
    end = journal.append(last, [record(50)])
    end = journal.append(end, [record(51)])
    journal.check(end)
    journal.finish(end)
    assert archived() == Counter([*range(ends.index(last)), 50, 51])
    with pytest.raises(SinkError, match="changed or removed"):
        journal.append(ends[1], [record(52)])  # that file is not on this disk any more
    journal.close()


def test_a_file_that_somebody_removes_there_is_noticed(front: S3Front) -> None:
    journal, committed = opened(), 0
    for number in range(20):
        committed = journal.append(committed, [record(number)])
    journal.finish(committed)
    names = sorted(name for name in journal.store.sizes() if name.endswith(".warc.gz"))
    journal.store.delete([names[-1]])
    journal.finish(committed)  # it is here, too
    assert archived() == Counter(range(20))
    journal.store.delete([names[0]])
    with pytest.raises(SinkError, match="was changed or removed: restore it"):
        journal.finish(committed)
    journal.close()


async def test_a_store_that_is_away_gets_the_files_later(
    front: S3Front, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spider = a_spider(site)
    monkeypatch.setattr("shoal.runtime.output_checks.PATIENCE", 0.0)

    @spider.on_item
    def break_it(item: object, page: Page) -> object:
        front.status = 503
        return item

    with pytest.raises(SinkError, match="nothing is lost"):
        await crawl(spider)
    front.status = 0
    await crawl(a_spider(site))
    assert archived() == Counter(range(PAGES))


SPIDER = """
from shoal import Spider
spider = Spider("shop", start="http://shop.example/")

@spider.handler
def page(page):
    yield {"n": int(page.url.rpartition("/")[2])}
"""


def rows_at(url: str) -> list[int]:
    """The rows that the manifest leads to; there are no other parts."""
    store = ObjectStore(url)
    [part] = json.loads(store.get(MANIFEST) or b"")["parts"]
    assert [key for key in store.sizes() if read_name(key)] == [part["name"]]
    data = gzip.decompress(store.get(part["name"]) or b"")
    assert part["rows"] == data.count(b"\n")
    return [json.loads(line)["n"] for line in data.splitlines()]


def test_rows_of_an_extraction_go_to_an_object_store(
    front: S3Front, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("shop.py").write_text(SPIDER)
    for count in (3, 5):
        Path(f"{count}.warc.gz").write_bytes(b"".join(record(number).data for number in range(count)))
    command = ("extract", "shop.py", "--processes", "1", "-q", "--from")
    url = "s3://bucket/shop/rows.jsonl.gz"
    assert run([*command, "3.warc.gz", "-o", url, "-o", "page=rows.csv"]) == 0
    assert rows_at(url) == [0, 1, 2]
    assert run([*command, "5.warc.gz", "-o", url]) == 3
    assert "holds rows already; --fresh replaces them" in capsys.readouterr().err
    assert rows_at(url) == [0, 1, 2]
    assert run([*command, "5.warc.gz", "-o", url, "--fresh"]) == 0
    assert rows_at(url) == list(range(5))
    assert run([*command, "5.warc.gz", "-o", "s3://bucket/{item}.jsonl.gz"]) == 0
    assert rows_at("s3://bucket/page.jsonl.gz") == list(range(5))
    assert [path.name for path in Path().glob(".*.extract")] == []


async def test_what_cannot_be(front: S3Front, site: str) -> None:
    with pytest.raises(UsageError, match="--archive s3://nobody/x: there is no such bucket"):
        await crawl(a_spider(site), "s3://nobody/x")
    with pytest.raises(UsageError, match=r"--archive s3://bucket/x: a fleet archives in folders"):
        place_on_fleet(["rows.jsonl"], "site", "redis://127.0.0.1:1", Settings(archive="s3://bucket/x"))
    with pytest.raises(UsageError, match=r"--from s3://bucket/x: copy the files to a folder"):
        archive_files("s3://bucket/x")
    with pytest.raises(UsageError, match=r"--cache s3://bucket/x: a cache is a folder"):
        await crawl(a_spider(site), "s3://bucket/x", cache=True)
    with pytest.raises(UsageError, match=r"--archive ftp://b/x: name a folder, or an address of s3://"):
        await crawl(a_spider(site), "ftp://b/x")

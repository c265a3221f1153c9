"""The archive: WARC records, the files they go to, and their index. warcio and fastwarc are the second opinions."""

from __future__ import annotations

import json
import os
import re
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from multidict import CIMultiDict
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from shoal.archive.cdxj import surt
from shoal.archive.index import Index, rebuild
from shoal.archive.members import Compression, decompress, members
from shoal.archive.record_id import new_id
from shoal.archive.records import (
    Exchange,
    Metadata,
    Records,
    Target,
    digest_of,
    encode,
    packed_meta,
    variant_of,
)
from shoal.archive.scan import parse
from shoal.errors import SinkError
from shoal.model import Response, Task
from shoal.sink.ownership import Owner
from shoal.sink.warc_files import ArchiveJournal, place_of

URL = "http://shop.example/p?id=1"
BODY = b"<p>" + b"hello " * 200


def exchange(number: int = 0, body: bytes = BODY, **changes: Any) -> Exchange:
    url = f"http://shop.example/p?id={number}"
    headers = CIMultiDict({"Content-Type": "text/html; charset=utf-8", "Content-Encoding": "br"})
    given: dict[str, Any] = {
        "id": new_id(),
        "task": Task(url, "parse"),
        "response": Response(url, 200, headers, body),
        "metadata": Metadata(job="shop", handler="parse", fetched_at=1.8e9 + number, page=True),
        "request_headers": [("User-Agent", "Shoal")],
    }
    return Exchange(**(given | changes))


def records(number: int = 0, body: bytes = BODY, **changes: Any) -> Records:
    return encode(exchange(number, body, **changes))


def urls(path: Path, kind: str = "response") -> list[str]:
    with path.open("rb") as file:
        return [
            record.rec_headers.get_header("WARC-Target-URI")
            for record in ArchiveIterator(file)
            if record.rec_type == kind
        ]


def failed(*paths: Path) -> int:
    """What `warcio check` says: 0 if all digests are right."""
    checker = Checker(SimpleNamespace(inputs=paths, verbose=False))
    for path in paths:
        checker.process_one(str(path))
    return int(checker.exit_value)


def test_other_readers_read_a_page(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    one = exchange()
    journal.append(0, [encode(one)])
    path = tmp_path / "shop-00000.warc.gz"
    assert failed(path) == 0
    with path.open("rb") as file:
        info, response, request, about = [
            (record, record.content_stream().read()) for record in ArchiveIterator(file)
        ]
    assert info[0].rec_type == "warcinfo"
    assert response[0].rec_headers.get_header("WARC-Record-ID") == f"<urn:uuid:{one.id}>"
    assert response[0].http_headers.get_statuscode() == "200"
    assert response[0].http_headers.get_header("X-Crawler-Content-Encoding") == "br"
    assert response[1] == BODY
    assert request[0].http_headers.statusline == "/p?id=0 HTTP/1.1"
    assert request[0].http_headers.protocol == "GET"
    assert b'"handler":"parse"' in about[1]
    with path.open("rb") as file:
        fast = [(one.headers["WARC-Type"], one.verify_payload_digest()) for one in FastIterator(file)]
    assert [kind for kind, _ in fast] == ["warcinfo", "response", "request", "metadata"]
    assert dict(fast)["response"]


def test_zstd(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop", compression="zstd")
    journal.append(0, [encode(exchange(), compression="zstd")])
    kinds = [parse(member.data).kind for member in members(tmp_path / "shop-00000.warc.zst")]
    assert kinds == ["warcinfo", "response", "request", "metadata"]


def test_a_revisit_has_no_body(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    first = exchange(1)
    target = Target(first.id, first.response.url, first.metadata.fetched_at)
    journal.append(0, [encode(first), records(2, refers_to=target)])
    path = tmp_path / "shop-00000.warc.gz"
    assert failed(path) == 0
    with path.open("rb") as file:
        [revisit] = [record for record in ArchiveIterator(file) if record.rec_type == "revisit"]
        assert revisit.rec_headers.get_header("WARC-Refers-To") == f"<urn:uuid:{first.id}>"
        assert revisit.rec_headers.get_header("WARC-Payload-Digest") == digest_of(BODY)
        assert revisit.content_stream().read() == b""


def secret_page() -> Exchange:
    headers = CIMultiDict(
        [("Set-Cookie", "sid=s3cret; Path=/"), ("Set-Cookie", "s3cret"), ("X-Auth-Token", "s3cret")]
    )
    task = Task(URL, method="POST", body=b"user=me&password=s3cret&go=1")
    sent = [("Authorization", "s3cret"), ("Cookie", "a=s3cret"), ("X-My-Key", "s3cret"), ("Accept", "*/*")]
    return exchange(task=task, response=Response(URL, 200, headers, BODY), request_headers=sent)


def test_secrets_are_masked() -> None:
    data = decompress(encode(secret_page()).data)
    assert b"s3cret" not in data
    for kept in (b"Set-Cookie: sid=***; Path=/", b"Accept: */*", b"X-My-Key: ***", b"user=me&password="):
        assert kept in data
    assert decompress(encode(secret_page(), secrets=True).data).count(b"s3cret") == 7


@pytest.mark.parametrize("odd", ["a\r\nX: y", "\udc80\udcff", "half \ud83d", "nul \0", "ä"])
def test_odd_headers_stay_in_their_line(odd: str, tmp_path: Path) -> None:
    response = Response(URL, 299, CIMultiDict({"X-Odd": odd}), b"")
    journal = ArchiveJournal(tmp_path, "shop")
    journal.append(0, [records(response=response, metadata=Metadata(handler=odd, page=True))])
    assert failed(tmp_path / "shop-00000.warc.gz") == 0
    [found] = Index(tmp_path).all() if rebuild(tmp_path) else []
    assert found.entry.status == 299
    with (tmp_path / "shop-00000.warc.gz").open("rb") as file:
        [record] = [one for one in ArchiveIterator(file) if one.rec_type == "response"]
        assert [name for name, _ in record.http_headers.headers] == ["X-Odd", "Content-Length"]


@pytest.mark.parametrize("meta", [None, {}, {"a": [1, None]}, {"b": b"\xff"}, {"s": "\ud83d"}, {"n": {1: 2}}])
def test_meta_comes_back(meta: dict[str, Any] | None) -> None:
    back = Metadata(**packed_meta(meta)).task_meta()
    assert back == (meta if meta != {"s": "\ud83d"} else {"s": "\ufffd"})


def test_ids_are_random_uuids() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert {(UUID(one).version, UUID(one).variant, str(UUID(one)) == one) for one in ids} == {
        (4, RFC_4122, True)
    }


def test_variants() -> None:
    assert variant_of("GET", None) == ""
    assert len({variant_of("POST", b"a"), variant_of("POST", b"b"), variant_of("HEAD", None), ""}) == 4


# -- the files


def test_what_is_not_committed_is_cut(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    first = journal.append(0, [records(1)])
    journal.append(first, [records(2)])  # never committed
    end = journal.append(first, [records(3)])
    path = tmp_path / "shop-00000.warc.gz"
    assert urls(path) == [f"http://shop.example/p?id={number}" for number in (1, 3)]
    assert place_of(end) == (0, path.stat().st_size)


def test_files_are_rolled_and_later_ones_removed(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop", limit=1)
    position, positions = 0, []
    for number in range(4):
        position = journal.append(position, [records(number)])
        positions.append(position)
    assert positions == sorted(positions)
    assert [place_of(one)[0] for one in positions] == [0, 1, 2, 3]
    assert max(positions) < 2**53
    other = ArchiveJournal(tmp_path, "shop", limit=1)  # as after a kill, when the store knows of two files
    end = other.append(positions[1], [records(9)])
    assert place_of(end)[0] == 2
    left = sorted(tmp_path.glob("*.warc.gz"))
    assert [urls(path) for path in left] == [[f"http://shop.example/p?id={number}"] for number in (0, 1, 9)]


def test_a_new_job_of_the_same_name_has_files_of_its_own(tmp_path: Path) -> None:
    for made in (1.8e9, 1.8e9 + 0.001):
        journal = ArchiveJournal(tmp_path, "shop/a")
        journal.owner = Owner("shop/a", made)
        journal.append(0, [records(1)])
    names = sorted(path.name for path in tmp_path.glob("*.warc.gz"))
    assert names == [f"shop-a-20270115080000{end}-00000.warc.gz" for end in ("000", "001")]


def test_an_append_without_rows_only_cuts(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    assert journal.append(0, []) == 0
    first = journal.append(0, [records(1)])
    journal.append(first, [records(2)])
    assert journal.append(first, []) == first
    assert place_of(first)[1] == (tmp_path / "shop-00000.warc.gz").stat().st_size


def test_a_shorter_file_is_refused(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    journal.owner = Owner("shop", 1.8e9)
    end = journal.append(0, [records(1)])
    journal.check(end)
    os.truncate(tmp_path / journal.name_of(0), 10)
    for act in (lambda: journal.check(end), lambda: journal.append(end, [records(2)])):
        with pytest.raises(SinkError, match="is shorter than what this job has written"):
            act()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"cannot write the archive .*: Not a directory; nothing is lost"):
        ArchiveJournal(tmp_path / "file" / "archive", "shop").append(0, [records(1)])


# -- the index


def known(folder: Path) -> list[tuple[str, str, int]]:
    index = Index(folder)
    try:
        return [(place.entry.url, place.file, place.offset) for place in index.all()]
    finally:
        index.close()


def test_only_committed_records_are_in_the_index(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    first = journal.append(0, [records(1)])
    second = journal.append(first, [records(2)])
    assert len(known(tmp_path)) == 1
    journal.finish(second)
    assert len(known(tmp_path)) == 2
    journal.append(second, [records(3)])
    assert len(known(tmp_path)) == 2


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_the_index_can_be_made_again(tmp_path: Path, compression: Compression) -> None:
    journal = ArchiveJournal(tmp_path, "shop", limit=3000, compression=compression)
    position = 0
    pages = [exchange(number) for number in range(30)]
    for one in pages:
        position = journal.append(position, [encode(one, compression=compression)])
    journal.finish(position)
    index = Index(tmp_path)
    before = list(index.all())
    assert len(before) == 30
    assert len({place.file for place in before}) > 1
    index.close()
    assert rebuild(tmp_path) == 30
    index = Index(tmp_path)
    assert list(index.all()) == before
    place = index.find(pages[7].response.url)
    assert place is not None
    with (tmp_path / place.file).open("rb") as file:
        data = os.pread(file.fileno(), place.entry.size, place.offset)
    first = parse(decompress(data[: place.entry.length], compression))
    assert first.block.endswith(BODY)
    assert b"metadata" in decompress(data[place.entry.length :], compression)
    target = index.target(digest_of(BODY))
    assert target is not None
    assert target.id in {one.id for one in pages}


def test_records_of_a_process_that_was_killed_are_found_at_the_end(tmp_path: Path) -> None:
    killed, other = ArchiveJournal(tmp_path, "shop"), ArchiveJournal(tmp_path, "shop")
    position = killed.append(0, [records(1)])
    position = other.append(position, [records(2)])
    position = killed.append(position, [records(3)])  # this notes the first one
    position = other.append(position, [records(4)])
    other.finish(position)
    assert [url for url, _, _ in known(tmp_path)] == [f"http://shop.example/p?id={n}" for n in (1, 2, 3, 4)]


def test_what_another_process_wrote_over_is_not_noted(tmp_path: Path) -> None:
    one, other = ArchiveJournal(tmp_path, "shop"), ArchiveJournal(tmp_path, "shop")
    one.append(0, [records(1)])  # its commit fails
    position = other.append(0, [records(2), records(3)])
    position = one.append(position, [records(4)])
    one.finish(position)
    assert [url for url, _, _ in known(tmp_path)] == [f"http://shop.example/p?id={n}" for n in (2, 3, 4)]


def test_a_cut_goes_through_the_index(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    first = journal.append(0, [records(1)])
    second = journal.append(first, [records(2)])
    journal.finish(second)  # and then the store goes back
    third = journal.append(first, [records(3)])
    journal.finish(third)
    assert [url for url, _, _ in known(tmp_path)] == [f"http://shop.example/p?id={n}" for n in (1, 3)]


def test_a_damaged_index_is_replaced(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    position = journal.append(0, [records(1)])
    (tmp_path / "index.sqlite").write_bytes(b"not a database" * 100)
    journal.finish(position)
    assert len(known(tmp_path)) == 1


def test_a_record_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop")
    end = journal.append(0, [records(1), records(2)])
    os.truncate(tmp_path / "shop-00000.warc.gz", place_of(end)[1] - 20)
    assert rebuild(tmp_path) == 2  # the metadata of the last one is missing
    assert [place.entry.handler for place in Index(tmp_path).all()] == ["parse", ""]


# As pywb.utils.canonicalize.canonicalize has them.
SURTS = {
    "http://shop.example/p?id=1": "example,shop)/p?id=1",
    "https://www.Example.com/A//B/": "com,example)/a/b",
    "http://www2.example.com:8080/x?b=2&a=1": "com,example:8080)/x?a=1&b=2",
    "http://127.0.0.1:8000/p/1.html": "1,0,0,127:8000)/p/1.html",
    "http://example.com": "com,example)/",
    "https://example.com:443/?": "com,example)/",
    "http://example.com/%7Euser/%c3%a4/%2F%3f": "com,example)/~user/%c3%a4/?",
    "http://ex.com/a?b=1&sid=abcdef0123456789abcdef0123456789&a=2": "com,ex)/a?a=2&b=1",
    "http://[::1]:80/a?x=%20y&X=1": "::1)/a?x=%20y&x=1",
    "http://ex.com/a?q=%26%3d+%25": "com,ex)/a?=+%25&q=",
}


@pytest.mark.parametrize("url", SURTS)
def test_keys_are_those_of_pywb(url: str) -> None:
    assert surt(url) == SURTS[url]


def test_an_index_for_pywb(tmp_path: Path) -> None:
    journal = ArchiveJournal(tmp_path, "shop", limit=3000)
    position = 0
    for number in (11, 2, 1, 30):
        position = journal.append(position, [records(number)])
    post = Metadata(variant=variant_of("POST", b"x"))
    journal.finish(journal.append(position, [records(5, metadata=post)]))
    lines = (tmp_path / "index.cdxj").read_text().splitlines()
    assert lines == sorted(lines)
    assert [line.partition(" ")[0] for line in lines] == [f"example,shop)/p?id={n}" for n in (1, 11, 2, 30)]
    for line in lines:
        key, at, rest = line.split(" ", 2)
        about = json.loads(rest)
        with (tmp_path / about["filename"]).open("rb") as file:
            file.seek(int(about["offset"]))
            record = next(ArchiveIterator(BytesIO(file.read(int(about["length"])))))
        assert surt(record.rec_headers.get_header("WARC-Target-URI")) == key
        assert re.sub(r"\D", "", record.rec_headers.get_header("WARC-Date")) == at
        assert about["digest"] == record.rec_headers.get_header("WARC-Payload-Digest")

"""Pages from archives of all sorts of tools."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
from multidict import CIMultiDict

from shoal.archive.reader import (
    ArchivedPage,
    Choice,
    PageReader,
    archive_files,
    request_key,
    survey,
)
from shoal.archive.record_id import new_id
from shoal.archive.records import Exchange, Metadata, Target, encode
from shoal.archive.selection import NO_BODY, OLDER, Selection
from shoal.archive.warc_source import WarcError
from shoal.errors import UsageError
from shoal.model import Response, Task

HTML = [("Content-Type", "text/html")]


def foreign(
    url: str,
    body: bytes = b"<h1>a</h1>",
    headers: list[tuple[str, str]] = HTML,
    *,
    status: str = "200 OK",
    kind: str = "response",
    date: str = "2031-05-30T10:00:00Z",
    fields: str = "",
    id: str = "",
) -> bytes:
    """A record as other tools write it."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    block = f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{id or new_id()}>\r\n"
        f"WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n{fields}"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + block + b"\r\n\r\n")


def request_record(url: str, method: str, of: str) -> bytes:
    block = f"{method} / HTTP/1.1\r\n\r\n"
    head = (
        f"WARC/1.0\r\nWARC-Type: request\r\nWARC-Target-URI: {url}\r\nWARC-Concurrent-To: <urn:uuid:{of}>\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return gzip.compress(f"{head}{block}\r\n\r\n".encode())


def ours(url: str, body: bytes = b"<h1>a</h1>", *, refers_to: Target | None = None, **told: object) -> bytes:
    task = Task(url)
    headers: CIMultiDict[str] = CIMultiDict([*HTML, ("Content-Encoding", "gzip"), ("Set-Cookie", "a=secret")])
    given: dict[str, object] = {"job": "shop", "handler": "book", "page": True, "fetched_at": 1.9e9, **told}
    metadata = Metadata(**given)  # type: ignore[arg-type]
    return encode(
        Exchange(
            id=new_id(),
            task=task,
            response=Response(url, 200, headers, body),
            metadata=metadata,
            refers_to=refers_to,
        )
    ).data


def pages(
    tmp_path: Path, *records: bytes, choice: Choice | None = None, every: bool = False
) -> tuple[list[ArchivedPage], Selection]:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"".join(records))
    selection = Selection([survey(path, choice or Choice())], every=every)
    reader = PageReader([path], cap=1_000_000)
    try:
        return [reader.read(spot) for spot in selection.spots], selection
    finally:
        reader.close()


def test_a_page_of_ours_is_as_it_was(tmp_path: Path) -> None:
    told = {"depth": 3, "task": 7, "parent": 5, "elapsed": 0.25, "lane": "urgent", "meta": {"a": [1, "x"]}}
    record = ours("http://a.test/b", hops=("http://a.test/a",), asked="http://a.test/a", **told)
    [page], _ = pages(tmp_path, record)
    task = page.task
    assert (task.url, task.handler, task.depth, task.id, task.parent) == ("http://a.test/b", "book", 3, 7, 5)
    assert (task.host, task.lane, task.meta, task.hops) == (
        "a.test", "urgent", {"a": [1, "x"]}, ("http://a.test/a",),
    )  # fmt: skip
    assert (page.asked_at, page.response.elapsed, page.response.body) == (1.9e9, 0.25, b"<h1>a</h1>")
    # The headers are those that the server sent, though the body was decoded before it was archived.
    assert page.response.headers["content-encoding"] == "gzip"
    assert "content-length" not in page.response.headers
    assert not any(name.lower().startswith("x-crawler") for name in page.response.headers)


CHUNKED = b"5\r\n<h1>a\r\n5;x=y\r\n</h1>\r\n0\r\n\r\n"
ENCODINGS = {
    "plain": ([], b"<h1>a</h1>"),
    "chunked": ([("Transfer-Encoding", "chunked")], CHUNKED),
    "gzip": ([("Content-Encoding", "gzip")], gzip.compress(b"<h1>a</h1>")),
    "brotli": ([("Content-Encoding", "br")], brotli.compress(b"<h1>a</h1>")),
    "deflate": ([("Content-Encoding", "deflate")], zlib.compress(b"<h1>a</h1>")),
    "chunked gzip": (
        [("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")],
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(gzip.compress(b"<h1>a</h1>")), gzip.compress(b"<h1>a</h1>")),
    ),
    # Some tools decode the body and keep the headers.
    "said to be chunked": ([("Transfer-Encoding", "chunked")], b"<h1>a</h1>"),
    "said to be gzip": ([("Content-Encoding", "gzip")], b"<h1>a</h1>"),
    "unknown": ([("Content-Encoding", "rot13")], b"<h1>a</h1>"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bodies_of_other_tools(tmp_path: Path, encoding: str) -> None:
    headers, body = ENCODINGS[encoding]
    [page], _ = pages(tmp_path, foreign("http://a.test/", body, [*HTML, *headers]))
    assert page.response.body == b"<h1>a</h1>"
    assert page.task.handler == ""


def test_a_body_that_breaks_off_or_is_a_bomb(tmp_path: Path) -> None:
    gzipped = [*HTML, ("Content-Encoding", "gzip")]
    for body in (gzip.compress(random.Random(1).randbytes(50_000))[:-20], gzip.compress(bytes(5_000_000))):
        with pytest.raises(WarcError):
            pages(tmp_path, foreign("http://a.test/", body, gzipped))


def test_what_is_no_page(tmp_path: Path) -> None:
    found, selection = pages(
        tmp_path,
        foreign("http://a.test/"),
        foreign("<http://a.test/wget>"),
        foreign("http://a.test/gone", status="404 Not Found"),
        foreign("http://a.test/old", status="302 Found", headers=[("Location", "/")]),
        foreign("http://a.test/x.png", headers=[("Content-Type", "image/png")]),
        foreign("dns:a.test"),
        foreign("http://a.test/odd", status="no answer"),
        ours("http://a.test/robots.txt", page=False),
        ours("http://a.test/moved", page=False, verdict="moved"),
    )
    assert [page.task.url for page in found] == ["http://a.test/", "http://a.test/wget"]
    assert selection.passed_over == {
        "answers with status 404": 1,
        "redirects": 2,
        "pictures, scripts and the like": 1,
        "answers without a page": 1,
        "answers that were given to no handler": 1,
    }


def test_the_newest_of_each_page(tmp_path: Path) -> None:
    records = [
        foreign("http://a.test/", b"old"),
        ours("http://a.test/b", b"second", fetched_at=1.9e9 + 1),
        ours("http://a.test/b", b"first", fetched_at=1.9e9),
        ours("http://a.test/b", b"other handler", handler="list"),
        ours("http://a.test/b", b"other meta", meta={"a": 1}),
        ours("http://a.test/b", b"posted", method="POST", variant="POST x"),
        foreign("http://a.test/", b"new", date="2031-05-31T10:00:00Z"),
        foreign("http://a.test/", b"error", status="503 No", date="2031-06-01T10:00:00Z"),
    ]
    # Those of one second: the later one in the archive.
    found, selection = pages(tmp_path, *records)
    assert [page.response.body for page in found] == [
        b"second",
        b"other handler",
        b"other meta",
        b"posted",
        b"new",
    ]
    assert selection.passed_over == {OLDER: 2, "answers with status 503": 1}
    found, _ = pages(tmp_path, *records, every=True)
    assert len(found) == 7


def test_choices(tmp_path: Path) -> None:
    records = [
        ours("http://a.test/1"),
        ours("http://a.test/2", job="other"),
        ours("http://b.test/3", handler="list"),
        foreign("http://a.test/4"),
    ]

    def urls(**wanted: object) -> list[str]:
        found, _ = pages(tmp_path, *records, choice=Choice(**wanted))  # type: ignore[arg-type]
        return [page.task.url[-1] for page in found]

    assert urls() == ["1", "2", "3", "4"]
    assert urls(job="shop") == ["1", "3"]
    assert urls(handler="book") == ["1", "2", "4"]
    assert urls(url="http://b.test/*") == ["3"]
    assert urls(since=1.91e9) == ["4"]
    assert urls(statuses=frozenset({404})) == ["1", "2", "3", "4"]


def test_a_body_that_another_record_has(tmp_path: Path) -> None:
    first, id = (
        foreign("http://a.test/1", b"<p>same</p>", id="11111111-0000-4000-8000-000000000000"),
        "11111111",
    )
    refers = f"WARC-Refers-To: <urn:uuid:{id}-0000-4000-8000-000000000000>\r\n"
    again = foreign("http://a.test/2", b"", kind="revisit", fields=refers)
    lost = foreign("http://a.test/3", b"", kind="revisit", fields=refers.replace("1111", "2222"))
    found, selection = pages(tmp_path, first, again, lost)
    assert [(page.task.url[-1], page.response.body) for page in found] == [
        ("1", b"<p>same</p>"), ("2", b"<p>same</p>"),
    ]  # fmt: skip
    assert selection.passed_over == {NO_BODY: 1}


def test_a_request_is_found_by_what_was_asked(tmp_path: Path) -> None:
    _, selection = pages(
        tmp_path,
        request_record("http://a.test/posted", "POST", "11111111-0000-4000-8000-000000000000"),
        foreign("http://a.test/posted", id="11111111-0000-4000-8000-000000000000"),
        foreign("http://a.test/late", id="21111111-0000-4000-8000-000000000000"),
        request_record("http://a.test/late", "POST", "21111111-0000-4000-8000-000000000000"),
        ours("http://a.test/b", asked="http://a.test/a"),
    )
    found = selection.find(request_key("http://a.test/a"))
    assert found is not None
    assert found == selection.find(request_key("http://a.test/b"))
    for path in ("posted", "late"):
        assert selection.find(request_key(f"http://a.test/{path}")) is None
        assert selection.find(request_key(f"http://a.test/{path}", "POST")) is not None


def test_a_file_that_is_one_member(tmp_path: Path) -> None:
    plain = b"".join(gzip.decompress(foreign(f"http://a.test/{number}")) for number in range(5))
    found, _ = pages(tmp_path, gzip.compress(plain))
    assert [page.task.url[-1] for page in found] == ["0", "1", "2", "3", "4"]


def test_files_of_an_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        archive_files(tmp_path / "none")
    with pytest.raises(UsageError, match="no WARC files"):
        archive_files(tmp_path)
    for name in ("b.warc.gz", "a.warc", "more/c.warc.zst", "index.cdxj", "a.warc.gz.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [path.name for path in archive_files(tmp_path)]
    assert names == ["a.warc", "b.warc.gz", "c.warc.zst"]
    assert archive_files(tmp_path / "index.cdxj") == [tmp_path / "index.cdxj"]

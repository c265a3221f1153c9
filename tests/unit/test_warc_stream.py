"""Records of WARC files, whole and broken, compared with what warcio and fastwarc read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from shoal.archive.members import compress
from shoal.archive.warc_source import WarcError, _zstd
from shoal.archive.warc_stream import Broken, Record, WarcFile

ALL = 1 << 30
END = "the file ends in the middle of a record"


def written(count: int) -> list[bytes]:
    return [record(number) for number in range(count)]


def record(number: int) -> bytes:
    body = f"<h1>{number}</h1>".encode() * 50 + b"WARC/1.0\r\n\r\n"
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{uuid4()}>\r\n"
        f"WARC-Target-URI: http://a.test/{number}\r\nWARC-Date: 2031-05-30T10:00:00Z\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def dictionary(records: list[bytes]) -> bytes:
    """A file whose first frame is the dictionary of the others, as browsertrix can write it."""
    trained = _zstd.train_dict(written(100), 2000)
    words = _zstd.compress(trained.dict_content)
    frames = [_zstd.compress(record, zstd_dict=trained) for record in records]
    return b"\x5d\x2a\x4d\x18" + len(words).to_bytes(4, "little") + words + b"".join(frames)


FORMS: dict[str, Callable[[list[bytes]], bytes]] = {
    "plain": b"".join,
    "gzip": lambda records: b"".join(map(gzip.compress, records)),
    "gzip, not compressed": lambda records: b"".join(map(compress, records)),
    "zstd": lambda records: b"".join(map(_zstd.compress, records)),
    "one gzip": lambda records: gzip.compress(b"".join(records)),
    "one zstd": lambda records: _zstd.compress(b"".join(records)),
    "zstd with a dictionary": dictionary,
}


def read(path: Path) -> list[Record | Broken]:
    with WarcFile(path) as file:
        return list(file.records(lambda _: ALL))


def seen(found: list[Record | Broken]) -> list[str]:
    return [one.url[-1] if isinstance(one, Record) else "broken" for one in found]


@pytest.mark.parametrize("form", FORMS)
def test_records_are_read_in_every_form(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(FORMS[form](written(5)))
    found = [one for one in read(path) if isinstance(one, Record)]
    assert [one.url for one in found] == [f"http://a.test/{number}" for number in range(5)]
    assert all(one.block.endswith(b"WARC/1.0\r\n\r\n") and len(one.block) == one.length for one in found)
    with WarcFile(path) as file:  # and by their place, in any order
        placed = [one for one in found if one.offset >= 0]
        assert len(placed) == (1 if form.startswith("one") else 5)
        for one in [*placed, *reversed(placed)]:
            assert file.record(one.offset, lambda _: ALL) == one


@pytest.mark.parametrize("size", [7_000, 8_192, 20_000, 31_000, 40_000, 1_500_000])
@pytest.mark.parametrize("pack", [gzip.compress, _zstd.compress])
def test_members_of_any_size(tmp_path: Path, pack: Callable[[bytes], bytes], size: int) -> None:
    body = Random(size).randbytes(size)
    block = b"HTTP/1.1 200 OK\r\n\r\n" + body
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/0\r\n"
    large = head + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(map(pack, [record(1), large, record(2), large, record(3)])))
    found = [one for one in read(path) if isinstance(one, Record)]
    assert [one.url[-1] for one in found] == ["1", "0", "2", "0", "3"]
    assert found[1].block == found[3].block == block


@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_other_readers_agree(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(FORMS[form](written(5)))
    ours = [(one.offset, one.id, one.block) for one in read(path) if isinstance(one, Record)]
    with path.open("rb") as stream:
        fast = [
            (one.stream_pos, one.record_id, one.reader.read())
            for one in ArchiveIterator(stream, parse_http=False)
        ]
    assert ours == fast
    with path.open("rb") as stream:
        other = [
            (one.rec_headers["WARC-Record-ID"], one.raw_stream.read())
            for one in WarcioIterator(stream, no_record_parse=True)
        ]
    assert [(id, block) for _, id, block in ours] == other


def test_a_file_that_is_cut(tmp_path: Path) -> None:
    """At every place: what is before it is read, and one record is broken."""
    path = tmp_path / "a.warc"
    for form in ("plain", "gzip", "zstd"):
        first, second = (FORMS[form]([one]) for one in written(2))
        for end in range(len(first) + 1, len(first + second) - 4):
            path.write_bytes((first + second)[:end])
            found = seen(read(path))
            if end > len(first + second) - 20:  # all of it is there but the checksum
                found = [one for one in found if one != "1"]
            assert found == ["0", "broken"]


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_reading_goes_on_behind_what_is_broken(tmp_path: Path, form: str) -> None:
    first, second, third = (FORMS[form]([record]) for record in written(3))
    path = tmp_path / "a.warc"
    for middle in (b"", b"XXXX", second[: len(second) // 2], b"\0" * 5000):
        path.write_bytes(first + middle + third)
        found = read(path)
        assert seen(found) in (["0", "2"], ["0", "broken", "2"])
        assert bool(middle) == ("broken" in seen(found))
        if middle:
            [broken] = [one for one in found if isinstance(one, Broken)]
            assert broken.offset == len(first)


@pytest.mark.slow
def test_a_bomb_takes_little_memory(tmp_path: Path) -> None:
    """A gigabyte of zeros in a megabyte: nothing of it is a record, and it is not held."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    path = tmp_path / "a.warc.gz"
    path.write_bytes(data)
    [broken] = read(path)
    assert isinstance(broken, Broken)
    assert "bytes" in broken.reason


@given(
    st.binary(max_size=300), st.sampled_from(["", "WARC/1.0\r\n", "WARC/1.1\r\nContent-Length: 5\r\n\r\n"])
)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, head: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.warc"
    for packed in (head.encode() + data, gzip.compress(head.encode() + data), b"\x1f\x8b\x08" + data):
        path.write_bytes(packed)
        for one in read(path):
            assert isinstance(one, Record | Broken)


def test_a_place_without_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(FORMS["gzip"](written(2)))
    with WarcFile(path) as file:
        for place in (3, file.size, file.size + 10):
            with pytest.raises(WarcError):
                file.record(place, lambda _: ALL)

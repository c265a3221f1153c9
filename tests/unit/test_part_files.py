"""Parts of downloaded files: what is noted, what is gone on with, and who has one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shoal.sink.files import FileStore, PartFile, files_folder, request_key

GOOD = {"ETag": '"1"', "Content-Length": "10"}


def opened(folder: Path) -> PartFile:
    part = PartFile.open(folder / "key", 100)
    assert part is not None
    return part


def begun(folder: Path, headers: Mapping[str, str], data: bytes = b"12345") -> PartFile:
    """A part after its process was killed: opened again."""
    part = opened(folder)
    part.headers()
    assert part.takes(200, headers)
    part.write(data)
    part.close()
    return opened(folder)


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        (GOOD, '"1"'),
        ({"ETag": 'W/"1"'}, None),  # says that it is about the same
        ({"ETag": '"\udcff"'}, None),  # cannot be sent back
        ({}, None),
        ({**GOOD, "Content-Encoding": "gzip"}, None),  # ranges would be of the compressed bytes
        (
            {"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 02 Nov 2026 11:00:00 GMT"},
            "Mon, 02 Nov 2026 10:00:00 GMT",
        ),
        # Changed a moment ago: it may change once more in the same second.
        ({"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 02 Nov 2026 10:00:00 GMT"}, None),
        ({"Last-Modified": "yesterday", "Date": "today"}, None),
        ({"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}, None),
    ],
)
def test_only_versions_that_can_be_told_apart_are_gone_on_with(
    tmp_path: Path, headers: dict[str, str], version: str | None
) -> None:
    part = begun(tmp_path, headers)
    sent = part.headers()
    part.close()
    assert sent.get("If-Range") == version
    assert sent.get("Range") == ("bytes=5-" if version else None)


def test_a_part_from_before_a_crash_of_the_system_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, GOOD).close()
    monkeypatch.setattr("shoal.sink.files._boot", lambda: "another")
    part = opened(tmp_path)
    assert "Range" not in part.headers()
    part.close()


def test_a_part_belongs_to_one_at_a_time(tmp_path: Path) -> None:
    part = opened(tmp_path)
    assert PartFile.open(tmp_path / "key", 100) is None
    part.close()
    opened(tmp_path).close()


def test_a_part_that_was_complete_needs_no_request(tmp_path: Path) -> None:
    part = begun(tmp_path, GOOD, b"1234567890")
    assert part.is_whole
    store = FileStore(tmp_path / "files", "job", 1.0)
    file = store.keep(part, url="http://x.test/a.txt", name="", to="")
    part.close()
    assert Path(file.path).read_bytes() == b"1234567890"


def test_names_with_any_bytes_are_noted(tmp_path: Path) -> None:
    headers = {"Content-Disposition": 'attachment; filename="\udcfc.txt"', "Content-Type": "te\udcffxt/plain"}
    part = begun(tmp_path, {**GOOD, **headers})
    assert part.known.name == "ü.txt"
    part.close()


def test_a_damaged_note_is_none(tmp_path: Path) -> None:
    begun(tmp_path, GOOD).close()
    (tmp_path / "key.json").write_bytes(b"\xff{")
    part = opened(tmp_path)
    assert (part.size, "Range" in part.headers()) == (0, False)
    part.close()


def test_requests_are_told_apart() -> None:
    keys = {
        request_key("GET", "http://x.test/", None, ""),
        request_key("GET", "http://x.test/", None, "to"),
        request_key("POST", "http://x.test/", None, ""),
        request_key("POST", "http://x.test/", b"1", ""),
        request_key("GET", "http://x.test/2", None, ""),
    }
    assert len(keys) == 5


def test_jobs_do_not_sweep_each_other(tmp_path: Path) -> None:
    """Not even one of the same name in another store; and a name is not a pattern."""
    stores = [
        FileStore(tmp_path, name, at) for name, at in (("a", 1.0), ("a", 2.0), ("?", 1.0), ("[a]", 1.0))
    ]
    parts = [store.part("k" * 40, 100) for store in stores]
    for store in stores:
        store.sweep_others()
    for part in parts:
        assert part is not None
        assert part.path.exists()
        part.close()
    stores[0].sweep()
    assert len(list((tmp_path / ".shoal").iterdir())) == 3


def test_where_files_go() -> None:
    assert files_folder("", None) == Path("files")
    assert files_folder("", Path("out/rows.jsonl")) == Path("out/files")
    assert files_folder("/x", Path("out/rows.jsonl")) == Path("/x")
    assert files_folder("s3://bucket", Path("out/rows.jsonl")) == Path("out/files")

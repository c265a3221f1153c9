"""What is written in each case, where it is found, and what should be in it."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.outputs.reading import Row, compare, read, read_archive, read_postgres
from benchmarks.outputs.site import Site, everything
from shoal.testing.servers.s3 import S3Server

ALL = ("brand", "product", "review")  # kinds of items


@dataclass(frozen=True)
class Places:
    """The outputs of a crawl, as `-o` names them, in `folder`."""

    outputs: Sequence[str]
    folder: Path


class Case:
    """Files, one for each output."""

    options: Sequence[str] = ()  # of the command, besides its outputs

    def __init__(self, *outputs: str) -> None:
        self._outputs = outputs

    @contextmanager
    def servers(self, folder: Path) -> Iterator[Places]:
        yield Places(self._outputs, folder)

    def judge(self, places: Places, site: Site) -> tuple[list[str], int]:
        """Faults, and how many rows there are in all outputs."""
        expected = everything(site.pages, site.publish)
        faults, rows = [], 0
        for output in places.outputs:
            kind, _, place = output.rpartition("=")
            try:
                found = self.read(places, place)
            except Exception as error:
                faults.append(f"{place} cannot be read: {error!r}")
                continue
            wanted = {name: row for name, row in expected.items() if kind in ("", row["kind"])}
            faults += [f"{place}: {fault}" for fault in compare(found, wanted)]
            rows += len(found)
        return faults, rows

    def read(self, places: Places, place: str) -> list[Row]:
        names = [place.replace("{item}", kind) for kind in ALL] if "{item}" in place else [place]
        return [row for name in names for row in read(places.folder / name)]


class Postgres(Case):
    @contextmanager
    def servers(self, folder: Path) -> Iterator[Places]:
        from shoal.testing.servers import PostgresServer

        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as own, PostgresServer(own) as server:
            yield Places([server.create_database("rows")], folder)

    def read(self, places: Places, place: str) -> list[Row]:
        return read_postgres(place)


class ObjectStore(Case):
    """Parts in a bucket: those of the manifest, and no others."""

    @contextmanager
    def servers(self, folder: Path) -> Iterator[Places]:
        with S3Server(folder / "s3") as server:
            os.environ.update(server.environment_for())
            server.make_bucket("bucket")
            yield Places(self._outputs, folder)

    def read(self, places: Places, place: str) -> list[Row]:
        import boto3

        client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
        prefix = place.removeprefix("s3://bucket/") + "/"
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        there = {entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", ())}

        def fetch(key: str) -> bytes:
            data: bytes = client.get_object(Bucket="bucket", Key=prefix + key)["Body"].read()
            return data

        manifest = json.loads(fetch("_manifest.json"))
        listed = {part["name"] for part in manifest["parts"]}
        orphans = {key for key in there - listed if not key.startswith("_")}
        assert not orphans, f"{len(orphans)} parts are not in the manifest, such as {min(orphans)}"
        rows = []
        for part in manifest["parts"]:
            path = places.folder / part["name"]
            path.write_bytes(fetch(part["name"]))
            found = read(path)
            assert len(found) == part["rows"], f"{part['name']} has {len(found)} rows, not {part['rows']}"
            rows += found
        assert len(rows) == manifest["rows"]
        return rows


class Archive(Case):
    """WARC files beside the rows: each page once, as it was sent."""

    options = ("--archive", "archive")

    def judge(self, places: Places, site: Site) -> tuple[list[str], int]:
        faults, rows = super().judge(places, site)
        try:
            pages = read_archive(places.folder / "archive")
        except Exception as error:
            return [*faults, f"the archive cannot be read: {error!r}"], rows
        expected = {f"{site.url}/page/{page}": site.body(page) for page in range(site.pages)}
        counted = Counter(url for url, _ in pages)
        if missing := expected.keys() - counted.keys():
            faults.append(f"{len(missing)} pages are missing in the archive, such as {min(missing)}")
        if doubled := [url for url, count in counted.items() if count > 1]:
            faults.append(f"{len(doubled)} pages are doubled in the archive, such as {doubled[0]}")
        if wrong := [url for url, body in pages if body != expected.get(url)]:
            faults.append(f"{len(wrong)} pages are wrong in the archive, such as {wrong[0]}")
        return faults, rows


class ArchivedObjects(Archive):
    """WARC files in a bucket: those of the list, and no others."""

    options = (
        "--archive",
        "s3://bucket/site/pages",
        "-s",
        "archive_file_size=100000",
    )  # so that there are many files

    @contextmanager
    def servers(self, folder: Path) -> Iterator[Places]:
        with S3Server(folder / "s3") as server:
            os.environ.update(server.environment_for())
            server.make_bucket("bucket")
            yield Places(self._outputs, folder)

    def judge(self, places: Places, site: Site) -> tuple[list[str], int]:
        import boto3

        client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
        there = client.list_objects_v2(Bucket="bucket", Prefix="site/pages/")["Contents"]
        folder = places.folder / "archive"
        folder.mkdir()
        for entry in there:
            data = client.get_object(Bucket="bucket", Key=entry["Key"])["Body"].read()
            (folder / entry["Key"].rpartition("/")[2]).write_bytes(data)
        [listed] = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
        assert set(listed["files"]) == {path.name for path in folder.glob("*.warc.gz")}
        return super().judge(places, site)


CASES: Mapping[str, Case] = {
    **{
        suffix: Case(f"rows.{suffix}")
        for suffix in (
            *("jsonl", "jsonl.gz", "jsonl.zst", "json", "json.gz", "csv", "csv.gz", "csv.zst", "tsv"),
            *("xml", "xml.gz", "parquet", "sqlite", "duckdb"),
        )
    },
    "postgres": Postgres(),
    "several": Case("product=products.parquet", "review=reviews.csv", "all.jsonl"),
    "templates": Case("{item}.csv"),
    "s3 jsonl.gz": ObjectStore("s3://bucket/site/rows.jsonl.gz"),
    "s3 parquet": ObjectStore("s3://bucket/site/rows.parquet"),
    "archive": Archive("rows.jsonl"),
    "archive in s3": ArchivedObjects("rows.jsonl"),
}
FLEET = ("jsonl", "postgres", "s3 jsonl.gz", "s3 parquet")  # what processes of several machines can share

"""What is written in each case, where it is found, and what should be in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.outputs.reading import Row, compare, read, read_postgres
from benchmarks.outputs.site import Site, everything


@dataclass(frozen=True)
class Places:
    """The outputs of a crawl, as `-o` names them, in `folder`."""

    outputs: Sequence[str]
    folder: Path


class Case:
    """Files, one for each output."""

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
        return read(places.folder / place)


class EveryItem(Case):
    """A file for each kind of item, by `{item}` in its path."""

    def read(self, places: Places, place: str) -> list[Row]:
        kinds = ("brand", "product", "review")
        return [row for kind in kinds for row in read(places.folder / place.replace("{item}", kind))]


class Postgres(Case):
    @contextmanager
    def servers(self, folder: Path) -> Iterator[Places]:
        from shoal.testing.servers import PostgresServer

        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as own, PostgresServer(own) as server:
            yield Places([server.create_database("rows")], folder)

    def read(self, places: Places, place: str) -> list[Row]:
        return read_postgres(place)


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
    "templates": EveryItem("{item}.csv"),
}
FLEET = ("jsonl", "postgres")  # what processes of several machines can share

"""One of fifty shops changes its markup: is it told within one run, named, and are its old rows still there?

With `--how cents`, prices lose their decimal point: numbers are told and named, and written all the same.

    python -m benchmarks.broken_shop                     50 shops, 40 products each
    python -m benchmarks.broken_shop --shops 10 --products 12 --how cents

A standing crawl by one TOML file: a first visit of every page, then a shop is redesigned, then second visits, then it
is mended, and visited once more. In between, the store's time is moved on by hours.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from benchmarks.shops.__main__ import FILE, with_addresses
from benchmarks.shops.crawling import command
from shoal.testing.changing_site import later
from shoal.testing.shops import ShopsProcess, ShopsSpec

SHOP = "dawn-single"
STORE = "store.db"


class Crawl:
    """One standing job; each run visits the pages that are due."""

    def __init__(self, folder: Path, file: Path, output: str) -> None:
        self._folder, self._file, self._output = folder, file, output

    def run(self) -> float:
        """Returns how long it took."""
        began = time.monotonic()
        words = ["crawl", str(self._file), "--store", STORE, "-o", self._output, "--once", "--revisit", "1h"]
        process = command(self._folder, [*words, "-q", "--rate", "0", "--per-host", "4"], {})
        if code := process.wait(900):
            log = (self._folder / "commands.log").read_text(errors="replace")[-2_000:]
            raise SystemExit(f"the crawl ended with {code}: {log}")
        later(self._folder / STORE, hours=2)
        return time.monotonic() - began

    def alarms(self) -> list[dict[str, str]]:
        said = subprocess.run(
            [sys.executable, "-m", "shoal", "quality", "--json", "--store", STORE],
            cwd=self._folder,
            capture_output=True,
            check=True,
        ).stdout
        return [
            {"host": host["host"], **{key: one[key] for key in ("handler", "field", "sentence")}}
            for host in msgspec.json.decode(said)
            for one in host["fields"]
            if one["alarm"]
        ]

    def rows(self) -> dict[str, object]:
        """The price of every product, by its URL; in a file, the last row of a product counts."""
        path = self._folder / self._output
        if path.suffix == ".jsonl":
            rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
            return {row["url"]: row["price"] for row in rows}
        with sqlite3.connect(path) as database:
            return dict(database.execute("SELECT url, price FROM product").fetchall())


def play(spec: ShopsSpec, how: str, folder: Path, output: str) -> list[str]:
    """Returns what is wrong."""
    wrong, shop = [], SHOP
    with ShopsProcess(spec) as shops:
        file = folder / FILE.name
        file.write_text(with_addresses(FILE.read_text("utf-8"), shops.fronts), "utf-8")
        crawl = Crawl(folder, file, output)
        host = next(front.base for front in shops.fronts if front.plan.name == shop).removeprefix("http://")
        print(f"first visits: {crawl.run():.0f} s", flush=True)
        good = crawl.rows()
        if len(good) != spec.shops * spec.products or None in good.values():
            wrong.append(f"{len(good)} rows of {spec.shops * spec.products} before anything broke")
        shops.break_shop(shop, how)
        print(f"{shop} ({host}) is redesigned ({how}); second visits: {crawl.run():.0f} s", flush=True)
        told = crawl.alarms()
        for one in told:
            print(f"told: {one['host']}: {one['sentence']}")
        if {one["host"] for one in told} != {host} or "price" not in [one["field"] for one in told]:
            wrong.append(f"alarms: {told}")
        rows = crawl.rows()
        changed = sum(rows.get(url) != price for url, price in good.items())
        print(f"{changed} rows are not as they were", flush=True)
        if changed != (spec.products if how == "cents" else 0):
            wrong.append(f"{changed} rows are not as they were")
        shops.break_shop(shop, "")
        print(f"it is mended; third visits: {crawl.run():.0f} s", flush=True)
        if left := crawl.alarms():
            wrong.append(f"alarms that stay: {left}")
        if crawl.rows() != good:
            wrong.append("rows are not as they were after it was mended")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broken_shop", description=__doc__)
    parser.add_argument("--shops", type=int, default=50)
    parser.add_argument("--products", type=int, default=40, help="in each shop")
    parser.add_argument("--how", choices=("renamed", "cents"), default="renamed")
    parser.add_argument("--output", default="rows.db", help="rows.db or rows.jsonl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as made:
        spec = ShopsSpec(options.shops, options.products)
        wrong = play(spec, options.how, Path(made).resolve(), options.output)
    for line in wrong:
        print(f"WRONG: {line}")
    fine = "its numbers are written" if options.how == "cents" else "its old rows are still there"
    print(f"told, named, and {fine}" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Lists the benchmarks."""

from __future__ import annotations

LIST = """\
python -m benchmarks.frontier   adds and claim+settle a second on the SQLite frontier, and how both grow with its size
python -m benchmarks.crawl      CPU, time and memory a page: Shoal, Scrapy with JOBDIR, and a bare aiohttp loop

Each takes --help. Scrapy comes with `pip install 'shoal[bench]'`."""

if __name__ == "__main__":
    print(LIST)

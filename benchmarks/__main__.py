"""Lists the benchmarks."""

from __future__ import annotations

LIST = """\
python -m benchmarks.frontier    adds and claim+settle a second on the SQLite frontier, and how both grow with size
python -m benchmarks.curves      the same from 10,000 to five million URLs, on 1 to 100,000 hosts, as curves
python -m benchmarks.peers       CPU, time, memory a page on five shapes: Shoal, Scrapy, scrapy-redis, Crawlee, loops
python -m benchmarks.crawl       the same for Shoal alone, with hooks and with an archive, beside a bare aiohttp loop
python -m benchmarks.guard       fails when a page has become dearer, relative to a bare aiohttp loop
python -m benchmarks.politeness  gaps and concurrency on 100 hosts beside one with 10^5 URLs, as the server saw them
python -m benchmarks.items       what it costs to check an item by its schema, for each kind of class
python -m benchmarks.kill        a crawl killed again and again: one row a page, none missing, none twice
python -m benchmarks.outputs     every format of output, killed again and again, read back by other programs
python -m benchmarks.output_speed  rows a second and CPU a row of every format, against plain JSON Lines
python -m benchmarks.extract     handlers on archived pages against crawling them: pages a second of one core
python -m benchmarks.structured  structured data of pages: share right and CPU, beside extruct and price-parser
python -m benchmarks.shop        a shop with a login, variants and files, killed again and again: every row once
python -m benchmarks.shops       fifty shops of fifty manners from one TOML file: prices and stock against the truth
python -m benchmarks.adding      URLs added to a job that runs, is paused, has finished; parts killed: each exactly once
python -m benchmarks.sitemaps    a sitemap index with a million URLs: memory, backpressure, kills, a run of what changed
python -m benchmarks.setback     a store that loses its last second, again and again, under live workers
python -m benchmarks.patterns    seven ways to fetch from 800 difficult hosts: who obtains what, how soon, how politely
python -m benchmarks.small_machine  one core, 512 MB, ten mixed proxies, 100 hosts: pages an hour, memory, cost
python -m benchmarks.limits      hosts that bear a quarter of the rate: 429s, pages lost, and how near the pace comes
python -m benchmarks.dedupe      what remembers URLs in Valkey: bytes a URL, and new URLs that are taken for known
python -m benchmarks.postgres    rows a second into PostgreSQL: row by row, arrays, COPY into a staging table
python -m benchmarks.browser     plain pages beside pages in a browser; the browser's memory; what its death costs
python -m benchmarks.http2       a page over HTTP/1.1 and over HTTP/2: CPU and speed, with 1, 8 and 32 at once
python -m benchmarks.main_text   the main text of pages: CPU a page and share found, by trafilatura and by others
python -m benchmarks.soak        200,000 pages beside hostile hosts, killed at times: what grows, what is lost
python -m benchmarks.freshness   a simulated month of visits: auto against a fixed interval and the optimum, attacks
python -m benchmarks.growth      1,000 short jobs on one store: its size, and the calls of an idle fleet
python -m benchmarks.standing_store   two months of a job that never ends: what its store takes up, by kind
python -m benchmarks.fleet       1 to 20 workers on one Valkey: speed, manners, and what is lost when parts are killed

Each takes --help. Scrapy, Crawlee and others come with `pip install 'shoal[bench]'`."""

if __name__ == "__main__":
    print(LIST)

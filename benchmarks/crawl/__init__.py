"""The same site crawled by three crawlers, in turns, on one machine: what does a page cost?

    site       2,000 pages of 15 KB with 33 links each, served on loopback by a process that is not counted
    crawlers   bare    aiohttp, uvloop and selectolax in a loop: no queue on disk, no robots.txt, no retries
               scrapy  a plain spider with JOBDIR, default middlewares, robots.txt obeyed
               shoal   `shoal crawl` with its defaults, politeness lifted
    all        100 requests at once, no delay, the same ten fields of every page as a line of JSON

A run counts only if its output has exactly one row for each page. CPU seconds are user and system time of the
crawler's process and its children, start of the interpreter included; so the cost of starting alone, measured on a
site of one page, stands beside it.
"""

"""Seven ways to fetch the same 20,000 URLs from 800 hosts of wildly different behaviour, side by side.

    the web      on loopback, in a process of its own; every host answers 429 above 5 requests a second (burst 10)
                 80 %  answer in 0.2–1 s          5 %  never answer
                 10 %  take up to 15 s            5 %  fail with 5xx for a part of every minute
    contenders   gather       asyncio.gather, unbounded              semaphore    50 permits, retries at once
                 workers      a queue and 50 workers                 per_domain   queues by domain, adaptive timeout
                 bucket       token bucket, breaker, backoff         scrapy       AutoThrottle and its own retries
                 shoal        `shoal crawl -i urls.txt`
    all          the same URLs, in the order of hosts and shuffled, no robots.txt, no links followed, 1,024 open files

Time runs faster by `--scale`, for all alike: latencies, limits, timeouts and pauses. Every figure but the CPU's is
given in unscaled time. docs/patterns.md explains the method and shows a run.
"""

"""Hosts that bear less than the configured rate: how many 429s, which pages are lost, how near the pace comes.

    python -m benchmarks.limits                        every kind of limit, by two workers: about twelve minutes
    python -m benchmarks.limits --pages 300 --hosts 1  a quick look: most of it is the time of learning
    python -m benchmarks.limits --slow                 few, slow hosts: 3 s an answer, 2 requests a second

Real servers on loopback that bear 5 requests a second, by token buckets, fixed and sliding windows, with and without
Retry-After; a crawl at up to 20 a second and host, durable as always. 429s are what the servers counted, and so is the
pace: pages by the time from the first request to the last one of each host.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from shoal.testing import Hit, HostProfile, WebProcess

BEARS, ASKED = 5.0, 20.0
MOST_REFUSED, LEAST_PACE = 0.003, 0.9
SLOW_LATENCY, SLOW_RATE = 3.0, 2.0
TOLD_EVERY = 30.0  # seconds


class Found(Struct, frozen=True):
    requests: int
    refused: int
    pages: int
    pace: float  # pages a second


def profiles(pages: int, each: int) -> dict[str, HostProfile]:
    def host(**given: object) -> HostProfile:
        plain = {
            "pages": pages,
            "links": 0,
            "rate": BEARS,
            "latency": 0.1,
            "failure_share": 0.0,
            "jitter": 0.5,
        }
        return HostProfile("lifelike", **{**plain, **given})  # type: ignore[arg-type]

    kinds = {
        "bucket-5": host(burst=5),
        "bucket-20-silent": host(burst=20, retry_after=0),
        "fixed-1s": host(limiter="fixed", window=1.0),
        "fixed-10s": host(limiter="fixed", window=10.0, retry_after=5),
        "fixed-10s-silent": host(limiter="fixed", window=10.0, retry_after=0),
        "sliding-1s-silent": host(limiter="sliding", window=1.0, retry_after=0),
        "sliding-10s": host(limiter="sliding", window=10.0, retry_after=2),
        "slow-bucket": host(burst=10, latency=1.0),
    }
    return {f"{name}-{n}": profile for name, profile in kinds.items() for n in range(each)}


def slow_profiles(pages: int, hosts: int) -> dict[str, HostProfile]:
    slow = HostProfile("slow", pages=pages, links=0, latency=SLOW_LATENCY)
    return {f"slow-{n}": slow for n in range(hosts)}


def crawl(web: WebProcess, hosts: dict[str, HostProfile], rate: float, words: Sequence[str]) -> int:
    """Rows in the output."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        urls, rows = Path(folder) / "urls.txt", Path(folder) / "rows.jsonl"
        every = [web.url(host, f"/p/{n}") for host, profile in hosts.items() for n in range(profile.pages)]
        urls.write_text("\n".join(every) + "\n")
        command = [sys.executable, "-m", "shoal", "crawl", "-i", str(urls), "-o", str(rows), "--depth", "0"]
        command += ["--no-robots", "--quiet", "--rate", str(rate), "-s", "trust_start=true"]
        command += ["--store", str(Path(folder) / "store.db"), *words]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            while not has_ended(process):
                tell(web.hits(), hosts)
        return len(rows.read_bytes().splitlines()) if rows.exists() else 0


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(TOLD_EVERY)
    except subprocess.TimeoutExpired:
        return False
    except KeyboardInterrupt:  # the crawl got it as well: it stops, and what was seen so far is shown
        process.wait()
    return True


def tell(hits: Sequence[Hit], hosts: dict[str, HostProfile]) -> None:
    seconds = max(hit.ended for hit in hits) - min(hit.started for hit in hits) if hits else 0
    pages = Counter(hit.host for hit in hits if hit.status == 200)
    going = {name: pages[name] for name, profile in hosts.items() if pages[name] < profile.pages}
    last = min(going, key=going.__getitem__, default="")
    refused = sum(hit.status == 429 for hit in hits)
    print(
        f"{seconds:.0f} s: {pages.total():,} of {sum(profile.pages for profile in hosts.values()):,} pages, "
        f"{refused:,} answers 429, {len(going)} hosts to go{f', last {last} with {going[last]:,}' * bool(last)}",
        file=sys.stderr,
    )


def found(hits: Sequence[Hit]) -> Found:
    fetched = [hit for hit in hits if hit.status == 200]
    span = max(hit.started for hit in hits) - min(hit.started for hit in hits)
    refused = sum(hit.status == 429 for hit in hits)
    return Found(len(hits), refused, len({hit.path for hit in fetched}), len(fetched) / max(span, 1e-9))


def show(results: dict[str, Found], bears: float) -> None:
    print("| limit | requests | 429 | pages | pages/s | of what it bears |")
    print("|---|---|---|---|---|---|")
    for name, one in results.items():
        share = f"{one.refused / one.requests:.2%}"
        print(
            f"| {name} | {one.requests:,} | {share} | {one.pages:,} | {one.pace:.2f} | {one.pace / bears:.0%} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=3_000, help="on each host")
    parser.add_argument("--hosts", type=int, default=2, help="of each kind")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="20 slow hosts with 250 pages each, instead")
    args = parser.parse_args()
    hosts = slow_profiles(min(args.pages, 250), 20) if args.slow else profiles(args.pages, args.hosts)
    bears = SLOW_RATE if args.slow else BEARS
    with WebProcess(hosts) as web:
        rows = crawl(web, hosts, SLOW_RATE if args.slow else ASKED, ["--processes", str(args.processes)])
        hits = web.hits()
    asked = {name: [hit for hit in hits if hit.host == name] for name in hosts}
    results = {name: found(its) for name, its in asked.items() if its}
    show(results, bears)
    everything = found(hits)
    pages = sum(profile.pages for profile in hosts.values())
    seconds = max(hit.ended for hit in hits) - min(hit.started for hit in hits)
    pace = sum(one.pace for one in results.values()) / len(hosts)
    print(
        f"\n{rows:,} of {pages:,} rows in {seconds:.0f} s, {everything.refused / len(hits):.2%} of answers 429"
    )
    claims = {
        f"no page lost ({pages - rows})": rows == pages,
        f"at most {MOST_REFUSED:.1%} of answers are 429": everything.refused <= MOST_REFUSED * len(hits),
        f"at least {LEAST_PACE:.0%} of the pace that is allowed ({pace / bears:.0%})": pace
        >= LEAST_PACE * bears,
    }
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'FAILS'}  {claim}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

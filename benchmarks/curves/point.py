"""What is measured at one size, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Point(msgspec.Struct, frozen=True):
    hosts: int
    urls: int  # admitted so far
    adds: float  # a second
    add_cpu: float  # us
    pages: float  # claimed and settled a second
    page_cpu: float  # us
    claim_cpu: float  # us, of a claim that takes one task
    longest: float  # ms, from asking for a settle and a claim to their commit
    stored: float  # bytes a URL, without the log
    memory: float  # MB, of the process

    def line(self) -> str:
        return (
            f"{self.hosts:>7,} hosts {self.urls:>9,} URLs  {self.adds:>8,.0f} adds/s {self.add_cpu:5.1f} us  "
            f"{self.pages:>7,.0f} pages/s {self.page_cpu:5.1f} us  claim {self.claim_cpu:4.0f} us  "
            f"longest {self.longest:4.0f} ms  {self.stored:4.0f} B/URL  {self.memory:4.0f} MB"
        )


COLUMNS = (
    "hosts",
    "URLs",
    "adds/s",
    "CPU µs an add",
    "claim+settle/s",
    "CPU µs a page",
    "CPU µs of one claim",
    "longest commit (ms)",
    "bytes a URL",
    "memory (MB)",
)

BEFORE = 100_000  # URLs, with which larger sizes are compared


def table(points: Sequence[Point]) -> str:
    rows = [
        f"| {one.hosts:,} | {one.urls:,} | {one.adds:,.0f} | {one.add_cpu:.1f} | {one.pages:,.0f} |"
        f" {one.page_cpu:.0f} | {one.claim_cpu:.0f} | {one.longest:.0f} | {one.stored:.0f} | {one.memory:.0f} |"
        for one in points
    ]
    return "\n".join((f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows))


def slowdown(points: Sequence[Point]) -> str:
    """For each number of hosts, how quick adds are at the largest size, as a part of what they were before."""
    return "\n".join(_slowdown([one for one in points if one.hosts == hosts]) for hosts in _hosts(points))


def _slowdown(points: Sequence[Point]) -> str:
    first = max((one for one in points if one.urls <= BEFORE), key=lambda one: one.urls)
    last = points[-1]
    return (
        f"{last.hosts:,} hosts: at {last.urls:,} URLs adds are {last.adds / first.adds:.0%} as quick as at"
        f" {first.urls:,}, by CPU {first.add_cpu / last.add_cpu:.0%}"
    )


def _hosts(points: Sequence[Point]) -> list[int]:
    return sorted({one.hosts for one in points})

"""What a contender finds in its directory when it starts, and what it leaves there."""

from __future__ import annotations

from pathlib import Path

import msgspec

URLS = Path("urls.txt")  # one a line
TERMS = Path("terms.json")
ROWS = Path("rows.jsonl")  # left behind: one row a page that was obtained
ATTEMPTS = Path("attempts.jsonl")  # left behind: one line a request

TIMEOUT = "timeout"
NOT_SENT = "not sent"  # there was no connection to send it on


class Terms(msgspec.Struct, frozen=True):
    """The numbers of a race that are the same for everybody, and Shoal's own."""

    scale: float  # how much faster than in life time runs
    timeout: float = 30.0  # unscaled seconds for one request, where a contender does not choose it by itself
    shoal_slots: int = 100
    shoal_rate: float = 2.0  # per unscaled second and host
    shoal_per_host: str = "auto"

    def seconds(self, unscaled: float) -> float:
        return unscaled / self.scale

    def per_second(self, unscaled: float) -> float:
        return unscaled * self.scale


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One request as its sender saw it. Times are monotonic seconds, the same in all processes of the machine."""

    url: str
    waited: float  # seconds for which a slot was held before the request was sent
    sent: float
    ended: float
    outcome: int | str  # a status, TIMEOUT, NOT_SENT, or what else went wrong


class AttemptLog:
    """Written as it goes, so that a contender that is cut short has left what it did."""

    def __init__(self) -> None:
        self._file = ATTEMPTS.open("wb", buffering=1 << 16)
        self._encode = msgspec.json.Encoder().encode
        self._unwritten = 0

    def write(self, attempt: Attempt) -> None:
        self._file.write(self._encode(attempt) + b"\n")
        self._unwritten += 1
        if self._unwritten >= 20:  # a contender that is killed has left most of it
            self._file.flush()
            self._unwritten = 0

    def close(self) -> None:
        self._file.close()


def read_terms() -> Terms:
    return msgspec.json.decode(TERMS.read_bytes(), type=Terms)


def read_urls() -> list[str]:
    return URLS.read_text("ascii").split()

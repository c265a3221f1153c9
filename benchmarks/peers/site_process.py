"""The server in a process of its own, and what its pages should become."""

from __future__ import annotations

import subprocess
import sys
from typing import IO, TYPE_CHECKING, Self

import msgspec

from benchmarks.peers.asked import Asked
from benchmarks.peers.shapes import Shape

if TYPE_CHECKING:
    from benchmarks.peers.certificates import Certificates

_END_TIMEOUT = 10.0  # seconds


class SiteProcess:
    def __init__(self, shape: Shape, certificates: Certificates | None = None) -> None:
        self.shape = shape
        self.certificates = certificates if shape.tls else None
        self._bases: list[str] = []

    @property
    def start_urls(self) -> list[str]:
        """The first page of every host; or where links are not followed, all pages."""
        pages = [
            [f"{base}{path}" for path in site.paths()]
            for base, site in zip(self._bases, self.shape.sites(), strict=True)
        ]
        return [url for of_host in pages for url in (of_host[:1] if self.shape.follow else of_host)]

    def pages(self) -> dict[str, int]:
        """Every URL that must become a row, with the number of its page."""
        return {
            f"{base}{site.path(page)}": page
            for base, site in zip(self._bases, self.shape.sites(), strict=True)
            for page in range(site.pages)
        }

    def take(self) -> Asked:
        """What was asked for since the last time."""
        return msgspec.json.decode(self._ask(), type=Asked)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.peers.server", msgspec.json.encode(self.shape).decode()]
        if self.certificates is not None:
            command += [str(self.certificates.certificate), str(self.certificates.key)]
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the benchmark, which ends it by closing its input
        )
        addresses = msgspec.json.decode(self._line(), type=list[str])
        self._bases = [f"{self.shape.scheme}://{address}" for address in addresses]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            _pipe(self._server.stdin).close()
            self._server.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        finally:
            _pipe(self._server.stdout).close()

    def _ask(self) -> bytes:
        pipe = _pipe(self._server.stdin)
        pipe.write(b"take\n")
        pipe.flush()
        return self._line()

    def _line(self) -> bytes:
        line = _pipe(self._server.stdout).readline()
        if not line:
            raise RuntimeError("the site's server has ended; its standard error says why")
        return line


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe

"""aiohttp's side of an HTTP/1.1 connection: takes what servers get wrong, within bounds on what is no body.

A body is bounded by whoever reads it. But interim answers, empty lines, chunks of a byte and their extensions are all
used up by the parser, and nobody sees how many there are; and what arrives on a connection that lies idle is parsed
into answers that nobody has asked for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import StreamReader
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError

from shoal.fetch.aiohttp_private import Protocol
from shoal.fetch.failures import BrokenAnswerError, FloodError
from shoal.fetch.http_repair import SWITCHING, Mender
from shoal.fetch.meter import Meter
from shoal.limits import ANSWER_HEADERS, BODY_OVERHEAD


class BoundedProtocol(Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, *, min_rate: float) -> None:
        super().__init__(loop)
        self._meter = Meter(min_rate, loop.time)
        self._received = 0  # bytes of the exchange that is under way
        self._answer: StreamReader | None = None  # the body of the final answer, once its head is there
        self._mender: Mender | None = None  # of the exchange

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be sent."""
        self._received = 0
        self._answer = None
        self._meter.reset()
        self._mender = Mender(is_head=params.get("skip_payload", False))
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._answer is not None and self._answer.is_eof() and data:
            self._cut(None)  # the answer is complete: this is none of it
            return
        if self._mender is None or not data:
            super().data_received(data)  # nothing was asked yet; or nothing has come, but there is room again
            return
        self._received += len(data)
        clean = self._mender.feed(data)
        if self._mender.odd:
            self.keep_no_longer()
        if clean:
            super().data_received(clean)
        else:
            self.put_off_timeout()
        if self._mender.error is not None:
            self._cut(self._mender.error)
        else:
            self._check(len(data))

    def _check(self, arrived: int) -> None:
        answer, received = self._answer, self._received
        if self._meter.is_too_slow(arrived) and (answer is None or not answer.is_eof()):
            self._cut(self._meter.error())
        elif answer is None:
            if received > ANSWER_HEADERS:
                self._cut(BrokenAnswerError(f"no end of its headers within {ANSWER_HEADERS} bytes"))
        elif not answer.is_eof() and received > BODY_OVERHEAD + 1.5 * answer.total_raw_bytes:
            self._cut(FloodError(f"{received} bytes for {answer.total_raw_bytes} of a body"))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Takes the head of an answer from the parser."""
        message, body = data
        if message.code >= 200 or message.code == SWITCHING:
            self._answer = body
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Tells the reader of a body as well when its framing breaks midway, who would else wait until the deadline."""
        payload = self.body
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and payload is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientPayloadError(exc.message), *cause)

    def close(self) -> None:
        """At once: over TLS the server would be listened to until it says farewell, or for half a minute."""
        self.abort()

    def _cut(self, error: Exception | None) -> None:
        """Ends the connection; with an error, the exchange as well."""
        self.keep_no_longer()
        if error is not None:
            self.set_exception(error)
            if self._answer is not None and not self._answer.is_eof():
                self._answer.set_exception(error)
        if self.transport is not None:
            self.transport.abort()

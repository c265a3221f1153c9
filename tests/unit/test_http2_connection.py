"""An HTTP/2 connection alone, without a socket: whatever frames arrive, it ends in order and within its bounds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.fetch.failures import BrokenAnswerError, FloodError, LostError
from shoal.fetch.http2_connection import Exchange, Frames, Header, Http2Connection
from shoal.limits import EMPTY_FRAMES, FRAME_BYTES, FRAME_SHARE, HEADER_LINES

REQUEST: list[Header] = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":authority", b"a"),
    (b":path", b"/"),
]


class Wire:
    """In place of a transport."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[Http2Connection, Wire]:
    connection, wire = Http2Connection(lambda _: None), Wire()
    connection._transport = wire  # type: ignore[assignment]
    connection._h2.initiate_connection()
    connection._h2.increment_flow_control_window(4_000_000)
    connection.data_received(frame(4, b""))
    return connection, wire


def frame(kind: int, payload: bytes, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def head(*headers: tuple[bytes, bytes], flags: int = 4, stream: int = 1) -> bytes:
    return frame(1, Encoder().encode(headers), flags, stream)


async def outcome(exchange: Exchange) -> Any:
    """What the exchange comes to, if nothing else arrives."""
    try:
        await exchange.head(0.001)
        while await exchange.read(0.001):
            pass
    except (BrokenAnswerError, FloodError, LostError, TimeoutError) as error:
        return error
    return exchange.status


any_frame = st.builds(
    frame,
    st.integers(0, 12),
    st.binary(max_size=60) | st.sampled_from([b"\x88", b"\x88\xbe\xbe", bytes(8), bytes(4), b"\0\3\0\0\0\1"]),
    st.integers(0, 255) | st.sampled_from([0, 1, 4, 5]),
    st.sampled_from([0, 1, 1, 1, 3, 2, 2**31 - 1]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(any_frame, max_size=12), st.integers(1, 40))
def test_whatever_arrives(frames: list[bytes], piece: int) -> None:
    """No exception gets out, and an exchange never hangs once the connection has ended."""

    async def run() -> None:
        connection, wire = connected()
        exchange = connection.begin(REQUEST, ends=True)
        data = b"".join(frames)
        for start in range(0, len(data), piece):
            if not connection.ended:
                connection.data_received(data[start : start + piece])
        ended, result = connection.ended, await outcome(exchange)
        assert ended == wire.aborted
        assert not (ended and isinstance(result, TimeoutError))
        exchange.close()
        connection.abort()

    asyncio.run(run())


@pytest.mark.parametrize("status", [b"abc", b"", b"20", b"2000", b"-10", "²00".encode()])
async def test_a_status_that_is_none(status: bytes) -> None:
    connection, _ = connected()
    exchange = connection.begin(REQUEST, ends=True)
    connection.data_received(head((b":status", status)))
    assert isinstance(await outcome(exchange), BrokenAnswerError)


@pytest.mark.parametrize("status", [b"200", b"103"])
async def test_too_many_header_lines(status: bytes) -> None:
    connection, wire = connected()
    exchange = connection.begin(REQUEST, ends=True)
    connection.data_received(head((b":status", status), *[(b"x", b"y")] * (HEADER_LINES + 1)))
    assert isinstance(await outcome(exchange), BrokenAnswerError)
    assert wire.aborted


async def test_what_is_on_its_way_when_exchanges_are_given_up_is_no_flood() -> None:
    connection, _ = connected()
    given_up = [connection.begin(REQUEST, ends=True) for _ in range(4)]
    kept = connection.begin(REQUEST, ends=True)
    for number in range(1, 10, 2):
        connection.data_received(head((b":status", b"200"), stream=number))
    for number, exchange in enumerate(given_up):
        exchange.close()
        connection.data_received(frame(0, bytes(FRAME_BYTES), stream=2 * number + 1) * 16)
    connection.data_received(frame(0, b"fine", flags=1, stream=9))
    await kept.head(1)
    assert await kept.read(1) == b"fine"
    kept.close()
    assert connection.ended, "it was kept for this one only"


async def test_a_server_cannot_enlarge_our_table_of_headers() -> None:
    connection, _ = connected()
    connection.data_received(frame(4, b"\0\1\xff\xff\xff\xff"))
    assert connection._h2.encoder.header_table_size == 4096


async def test_an_answer_that_is_not_http2() -> None:
    connection, _ = connected()
    exchange = connection.begin(REQUEST, ends=True)
    connection.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(await outcome(exchange), BrokenAnswerError)


# -- counting


def count(frames: Frames, data: bytes, *, took: int = 0, times: int = 1) -> int:
    """How many frames pass before it is too much."""
    for number in range(times):
        try:
            list(frames.cut(data))
        except FloodError:
            return number
        frames.took(took)
    return times


def test_bodies_pay_for_their_frames() -> None:
    assert count(Frames(), frame(0, bytes(FRAME_BYTES)), took=FRAME_BYTES, times=10_000) == 10_000
    assert count(Frames(), frame(0, bytes(FRAME_SHARE)), took=FRAME_SHARE, times=10_000) == 10_000


def test_what_brings_nothing_is_counted() -> None:
    assert count(Frames(), frame(0, b""), times=100_000) == EMPTY_FRAMES
    assert count(Frames(), frame(0, b"x"), took=1, times=100_000) < 1.1 * EMPTY_FRAMES
    assert count(Frames(), frame(0, bytes(FRAME_BYTES)), times=100_000) < 150, (
        "those for nobody cost by length"
    )


def test_a_request_begins_the_count_anew() -> None:
    frames = Frames()
    assert count(frames, frame(6, b""), times=EMPTY_FRAMES) == EMPTY_FRAMES
    frames.renew()
    assert count(frames, frame(6, b""), times=EMPTY_FRAMES) == EMPTY_FRAMES
    assert count(frames, frame(6, bytes(8))) == 0
    frames.took(10 * FRAME_SHARE)
    assert 8 <= count(frames, frame(6, bytes(8)), times=100) <= 10


def test_frames_are_cut_wherever_the_pieces_end() -> None:
    wanted = [frame(0, bytes(n), stream=1) for n in range(30)]
    data = b"".join(wanted)
    for piece in (1, 2, 8, 9, 10, 100, len(data)):
        frames = Frames()
        found = [
            cut for start in range(0, len(data), piece) for _, cut in frames.cut(data[start : start + piece])
        ]
        assert found == wanted

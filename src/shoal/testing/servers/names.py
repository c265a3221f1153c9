"""A name server on loopback, for tests: it answers, says no, stays silent, or sends rubbish, name by name.

    with NameServer({"shop.example": Records(["127.0.0.2"]), "*.evil.example": SILENT}) as names:
        Settings(dns_servers=[names.address])

It speaks just enough of RFC 1035 over UDP. What it was asked is in `asked`.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Literal, Self

from msgspec import Struct

A, AAAA = 1, 28
_KINDS = {A: "A", AAAA: "AAAA"}
_ANSWER, _TRUNCATED = 0x8180, 0x0200  # flags: an answer that recursion was used for; a part of it is missing
_SERVFAIL, _NXDOMAIN = 2, 3


class Records(Struct, frozen=True):
    """The addresses of a name, IPv4 and IPv6, and how many seconds they hold."""

    addresses: Sequence[str]
    ttl: int = 60
    silent: tuple[str, ...] = ()  # kinds of question that get no answer: "AAAA"


Refusal = Literal["nxdomain", "servfail", "silent", "garbage", "truncated"]
SILENT: Refusal = "silent"
Answer = Records | Refusal


class NameServer:
    """Answers in a thread of its own. A name that it does not know does not exist; "*.x" stands for all names below x,
    the longest such pattern first. `answers` may be changed while it runs."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, str]] = []  # (name, "A" or "AAAA"), as the questions came
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, name="names", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.sendto(b"", self._socket.getsockname())  # wakes the thread
        self._thread.join(10)
        self._socket.close()

    def _run(self) -> None:
        while True:
            question, asker = self._socket.recvfrom(4096)
            if not question:
                return
            reply = self._reply(question)
            if reply is not None:
                with suppress(OSError):
                    self._socket.sendto(reply, asker)

    def _reply(self, question: bytes) -> bytes | None:
        name, kind, end = _read_question(question)
        self.asked.append((name, _KINDS.get(kind, str(kind))))
        answer = self._answer(name)
        head, body = question[:2], question[12:end]
        if isinstance(answer, Records):
            if _KINDS.get(kind) in answer.silent:
                return None
            records = [_record(address, answer.ttl) for address in answer.addresses if _kind(address) == kind]
            return head + struct.pack(">5H", _ANSWER, 1, len(records), 0, 0) + body + b"".join(records)
        if answer == "silent":
            return None
        if answer == "garbage":
            return head + b"\xff" * 40
        flags = {"nxdomain": _NXDOMAIN, "servfail": _SERVFAIL}.get(answer, _TRUNCATED)
        return head + struct.pack(">5H", _ANSWER | flags, 1, 0, 0, 0) + body

    def _answer(self, name: str) -> Answer:
        if name in self.answers:
            return self.answers[name]
        _, dot, parent = name.partition(".")
        while dot:
            if (found := self.answers.get(f"*.{parent}")) is not None:
                return found
            _, dot, parent = parent.partition(".")
        return "nxdomain"


def _read_question(message: bytes) -> tuple[str, int, int]:
    """The name in lower case, the kind of record, and where the question ends."""
    labels, at = [], 12
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    return ".".join(labels), int.from_bytes(message[at + 1 : at + 3], "big"), at + 5


def _kind(address: str) -> int:
    return A if ip_address(address).version == 4 else AAAA


def _record(address: str, ttl: int) -> bytes:
    packed = ip_address(address).packed
    # 0xC00C: the name is the one in the question, twelve bytes from the start.
    return struct.pack(">3HIH", 0xC00C, _kind(address), 1, ttl, len(packed)) + packed

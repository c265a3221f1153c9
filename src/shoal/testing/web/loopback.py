"""Sockets for many hosts on one machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack

_HOSTS_PER_BLOCK = 250  # 127.0.1.1 … 127.0.1.250, 127.0.2.1 …
_PORT_TRIES = 20


def bind(count: int) -> list[socket.socket]:
    """`count` bound sockets on loopback: an address each and one port, or where that cannot be, a port each."""
    addresses = [f"127.0.{1 + n // _HOSTS_PER_BLOCK}.{1 + n % _HOSTS_PER_BLOCK}" for n in range(count)]
    for _ in range(_PORT_TRIES):
        try:
            return _bind_all(addresses, same_port=True)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                break
            if error.errno == errno.EMFILE:
                raise OSError(
                    error.errno, f"too many open files for {count} hosts: raise the limit with `ulimit -n`"
                ) from None
            if error.errno != errno.EADDRINUSE:
                raise
    return _bind_all(["127.0.0.1"] * count, same_port=False)


def _bind_all(addresses: Sequence[str], *, same_port: bool) -> list[socket.socket]:
    port = 0
    with ExitStack() as on_failure:
        sockets = []
        for address in addresses:
            sock = on_failure.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            sock.bind((address, port))
            sockets.append(sock)
            if same_port:
                port = sock.getsockname()[1]
        on_failure.pop_all()
    return sockets

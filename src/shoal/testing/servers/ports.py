"""A free port of loopback."""

from __future__ import annotations

import random
import socket

# Below the range from which the system takes ports for outgoing connections: one of those could take the port of a
# server while it restarts.
_LOWEST, _HIGHEST = 20000, 32000


def free_port() -> int:
    for _ in range(1000):
        port = random.SystemRandom().randrange(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on loopback")

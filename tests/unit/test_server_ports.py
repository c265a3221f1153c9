"""Ports for servers of tests, which run in several processes at once."""

from __future__ import annotations

import subprocess
import sys

CODE = "from shoal.testing.servers.server_process import free_port; print(*(free_port() for _ in range(150)))"


def test_no_two_processes_get_the_same_port() -> None:
    """450 of 12,000 ports: if each process chose for itself, about eight would be chosen twice."""
    processes = [
        subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    ports = [port for process in processes for port in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(ports) == len(set(ports)) == 450

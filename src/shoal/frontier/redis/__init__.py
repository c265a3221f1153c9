"""Shared by a fleet: a queue in Valkey or Redis. `home.py` is its front; importing this package loads no driver."""

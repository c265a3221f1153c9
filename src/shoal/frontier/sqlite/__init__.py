"""The embedded home of the frontier, on SQLite."""

from shoal.frontier.sqlite.home import SqliteFrontier

__all__ = ["SqliteFrontier"]

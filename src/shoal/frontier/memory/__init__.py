"""The reference home of the frontier, in memory."""

from shoal.frontier.memory.home import MemoryFrontier

__all__ = ["MemoryFrontier"]

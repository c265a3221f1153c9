"""Challenges: captchas, walls against bots, login walls, and empty shells that scripts would fill."""

from __future__ import annotations

from shoal.fetch.challenge.signatures import Challenge, detect
from shoal.fetch.challenge.verdict import Challenges, route

__all__ = ["Challenge", "Challenges", "detect", "route"]

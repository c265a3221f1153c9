"""Sends pages to the browser if pages with similar URLs were empty or walled off without one, and samples whether they
still are.

    found, or claimed in another lane ──▶ the browser lane, with a note in the task's history ──▶ opened in a browser
                     └──▶ a sample is fetched plainly ◀──┘            (or fetched plainly after all, if the pattern was
                                                                       given back while the task waited)

A task that was put into the browser lane on purpose has no such note and is never fetched plainly; nor is one whose own
page was empty or walled off without a browser.
"""

from __future__ import annotations

import random

from msgspec.structs import replace

from shoal.fetch.challenge import Challenge
from shoal.frontier.clock import FrontierClock
from shoal.hosts.cache import HostCache
from shoal.model import Failure, Retry, Task
from shoal.policy.escalation import Gave, Look, is_sampled, needs_browser, pattern_of, sentence
from shoal.settings import BROWSER, ChallengeKind

NEEDS_BROWSER = "needs_browser"

_GAVE: dict[ChallengeKind, Gave] = {"empty_shell": "shell", "captcha": "wall", "bot_wall": "wall"}
_SEEN = frozenset({"empty_shell", "challenge"})  # failures that say something about the page itself


class Escalation:
    def __init__(self, hosts: HostCache, clock: FrontierClock, rng: random.Random, *, on: bool) -> None:
        self._hosts = hosts
        self._clock = clock
        self._rng = rng
        self._on = on

    def placed(self, task: Task, now: float) -> Task:
        """The task, in the browser lane if its pattern needs a browser. For tasks that were just found."""
        if task.lane == BROWSER or self._pattern_in_need(task) is None:
            return task
        return replace(task, lane=BROWSER, history=(*task.history, Failure(NEEDS_BROWSER, at=now)))

    def moves(self, task: Task, now: float) -> Retry | None:
        """The move to the browser lane, if the task needs a browser and is not sampled."""
        if task.lane == BROWSER or (pattern := self._pattern_in_need(task)) is None:
            return None
        if self._is_sampled(task, pattern):
            return None
        detail = sentence(pattern, self._hosts.patterns(task.host)[pattern])
        return Retry(0.0, Failure(NEEDS_BROWSER, detail, at=now), lane=BROWSER, counts=False)

    def is_plain(self, task: Task) -> bool:
        """Whether a task of the browser lane is fetched without a browser."""
        if not self._on or not _is_here_by_pattern(task):
            return False
        pattern = self._pattern_in_need(task)
        return pattern is None or self._is_sampled(task, pattern)

    def look(self, task: Task, kind: str, challenge: Challenge | None) -> Look | None:
        """What a fetch without a browser says about the pattern of the URL, if anything."""
        if not self._on or not _is_plain_get(task):
            return None
        if challenge is not None:
            gave = _GAVE.get(challenge.kind)
        else:
            gave = "page" if kind == "ok" and self._hosts.patterns(task.host) else None
        return Look(pattern_of(task.url), gave) if gave is not None else None

    def _pattern_in_need(self, task: Task) -> str | None:
        patterns = self._hosts.patterns(task.host) if self._on else None
        if not patterns or not _is_plain_get(task):
            return None
        pattern = pattern_of(task.url)
        return pattern if needs_browser(patterns, pattern, self._clock.now()) else None

    def _is_sampled(self, task: Task, pattern: str) -> bool:
        return is_sampled(self._hosts.patterns(task.host), pattern, self._clock.now(), self._rng)


def _is_plain_get(task: Task) -> bool:
    """Whether a browser can open it."""
    return task.method == "GET" and task.body is None


def _is_here_by_pattern(task: Task) -> bool:
    kinds = {failure.kind for failure in task.history}
    return NEEDS_BROWSER in kinds and not kinds & _SEEN

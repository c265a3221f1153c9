"""Tells `on_dead_letter` hooks of pages that were given up, after the store has their letters."""

from __future__ import annotations

import asyncio
from collections import deque

from shoal.clock import Clock
from shoal.errors import ShoalError
from shoal.events import event
from shoal.limits import LETTERS_TOLD
from shoal.model import DeadLetter
from shoal.settings import Settings
from shoal.spider.handlers import HandlerTimer
from shoal.spider.hook_calls import HookFailed, call_alone
from shoal.spider.hooks import Hook
from shoal.spider.state import Values, state_of

_MORE = 1.0  # seconds


class LetterHooks:
    """They run one after another, beside the crawl, which does not wait for them."""

    def __init__(
        self, hooks: tuple[Hook, ...], settings: Settings, clock: Clock, state: Values | None = None
    ) -> None:
        self._hooks = hooks
        self._state = state
        self._seconds = settings.handler_timeout
        self._monotonic = clock.monotonic
        self._waiting: deque[DeadLetter] = deque()
        self._telling: asyncio.Task[None] | None = None
        self._not_told = 0

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def tell(self, letter: DeadLetter) -> None:
        if len(self._waiting) >= LETTERS_TOLD:
            self._not_told += 1
            return
        self._waiting.append(letter)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._waiting:
            letter = self._waiting[0]
            for hook in self._hooks:
                timer = HandlerTimer(self._monotonic() + self._seconds, self._monotonic)
                try:
                    with state_of(self._state):
                        await call_alone(hook, letter, time=timer)
                except (HookFailed, ShoalError) as error:  # the latter: the store is away
                    event("hook_failed", job=letter.task.job, url=letter.task.url, error=str(error))
            self._waiting.popleft()

    async def close(self) -> None:
        """Tells the rest, within the time that one letter may take."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=self._seconds * len(self._hooks) + _MORE)
            self._telling.cancel()
            await asyncio.wait([self._telling])
        if missed := self._not_told + len(self._waiting):
            event("letters_not_told", count=missed)
            self._waiting.clear()
            self._not_told = 0

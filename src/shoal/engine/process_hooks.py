"""Runs the hooks at the start and the end of a process that works on pages of a spider."""

from __future__ import annotations

import time

from shoal.errors import SpiderError
from shoal.events import event
from shoal.settings import Settings
from shoal.spider.handlers import HandlerTimer
from shoal.spider.hook_calls import HookFailed, call_alone
from shoal.spider.hooks import Hooks
from shoal.spider.plugins import hooks_of
from shoal.spider.spider import Spider


def time_of(settings: Settings) -> HandlerTimer:
    """The time of one hook that is about no page."""
    return HandlerTimer(time.monotonic() + settings.handler_timeout, time.monotonic)


class ProcessHooks:
    """The hooks of a process: made once for each spider, started before its first page, ended with the process."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, tuple[str, ...]], Hooks] = {}
        self._started: list[tuple[Hooks, Settings]] = []

    def of(self, spider: Spider, settings: Settings) -> Hooks:
        key = id(spider), tuple(settings.plugins)
        if key not in self._made:
            self._made[key] = hooks_of(spider, settings)
        return self._made[key]

    async def start(self, hooks: Hooks, settings: Settings) -> None:
        """Raises SpiderError if a hook fails. The next start begins with the first hook again."""
        if any(known is hooks for known, _ in self._started):
            return
        for hook in hooks.on_process_start:
            try:
                await call_alone(hook, time=time_of(settings))
            except HookFailed as error:
                raise SpiderError(str(error)) from error
        self._started.append((hooks, settings))

    async def close(self, *, failing: bool = False) -> None:
        """Ends in reverse order, so that what was opened first is closed last; all of them, though one fails. That is
        raised, unless the process is `failing` by something else."""
        failures: list[HookFailed] = []
        started, self._started = self._started, []
        for hooks, settings in reversed(started):
            for hook in reversed(hooks.on_process_end):
                try:
                    await call_alone(hook, time=time_of(settings))
                except HookFailed as error:
                    failures.append(error)
                    event("process_hook_failed", error=str(error))
        if failures and not failing:
            raise SpiderError(f"{failures[0]}; what was crawled is stored") from failures[0]

"""The detection as it is set up for a crawl: the kinds that are looked for, and a function of the user's."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias, cast, get_args

from shoal.errors import SettingsError
from shoal.events import event
from shoal.fetch.challenge.routes import TO_BROWSER, route, ways
from shoal.fetch.challenge.signatures import Challenge, detect
from shoal.model import Dead, Response, Retry, Task
from shoal.settings import ChallengeKind, Settings
from shoal.text import error_line

Check: TypeAlias = Callable[[Response], str | None]

_KINDS = frozenset(get_args(ChallengeKind))


class Challenges:
    """Made once per process. What is wrong with the settings is told here, and not by the first page. `browser`: there
    is one to open pages with."""

    def __init__(self, settings: Settings, *, browser: bool = False) -> None:
        self._settings = settings
        self._browser = browser
        self._check = load_check(settings.challenge_check) if settings.challenge_check else None
        self._wanted = set(settings.challenges)
        self.escalates = settings.escalate and TO_BROWSER in ways(settings, browser=browser)
        if not any(way.by == "lane" for way in ways(settings, browser=browser)):
            self._wanted.discard("empty_shell")  # nobody here can fill it
        self._broken = False

    def look(self, response: Response, asked: str | None = None) -> Challenge | None:
        """What stands in the way of the page, if anything does. `asked` is the URL before any redirects."""
        if response.status in self._settings.handle_status:
            return None
        found = detect(response, asked) if self._wanted else None
        if found is not None and found.kind in self._wanted:
            return found
        return self._ask(response) if self._check is not None else None

    def route(
        self, challenge: Challenge, response: Response, task: Task, *, now: float, rng: random.Random
    ) -> Retry | Dead | None:
        """What follows; None: the page is for the handler after all."""
        return route(challenge, response, task, self._settings, now=now, rng=rng, browser=self._browser)

    def _ask(self, response: Response) -> Challenge | None:
        assert self._check is not None
        try:
            said = self._check(response)
        except Exception as error:
            if not self._broken:  # once is enough: it is asked about every page
                self._broken = True
                where = f"{self._settings.challenge_check} failed on {response.url}"
                event("check_failed", where=where, error=error_line(error))
            return None
        if not said:
            return None
        kind = cast("ChallengeKind", said) if said in _KINDS else "bot_wall"
        return Challenge(kind, "", f"{self._settings.challenge_check} says {said!r}")


def load_check(path: str) -> Check:
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise SettingsError(f"challenge_check: {path!r} is not a function's address; write module:function")
    try:
        found: object = getattr(import_module(module), name, None)
    except Exception as error:
        raise SettingsError(f"challenge_check: {path!r} cannot be imported: {error_line(error)}") from error
    if not callable(found):
        raise SettingsError(f"challenge_check: {path!r} cannot be imported: {module} has no function {name}")
    return cast("Check", found)

"""What follows a challenge: a slow retry, then other routes, then the dead letters.

    captcha, bot_wall, rate_wall   wait ──▶ each route in turn, waiting longer ──▶ dead letter
    login_wall                     each route in turn ──▶ dead letter       (waiting does not log in)
    empty_shell                    each lane in turn ──▶ the handler        (it may know what to do with it)

Routes come from the settings; if these name none, and there is a browser, the browser lane is the route. The history
of a task shows how far it has come, so nothing else is stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Set
from importlib import import_module
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct

from shoal.errors import SettingsError
from shoal.events import event
from shoal.fetch.challenge.signatures import Challenge, detect
from shoal.model import Dead, Failure, Response, Retry, Task
from shoal.policy.outcomes import snapshot_of, this_life
from shoal.policy.retry import retry_after
from shoal.settings import BROWSER, ChallengeKind, Settings
from shoal.spider.rendering import Rendered
from shoal.text import error_line

_MAX_EXPONENT = 30
_JITTER = 0.5  # share of the delay that is added at random


class Route(Struct, frozen=True):
    """An entry of `challenge_routes`."""

    by: Literal["lane", "pool"]
    name: str


Step: TypeAlias = Route | None  # None: the same way again
TO_BROWSER = Route("lane", BROWSER)


def routes_of(settings: Settings, *, browser: bool = False) -> tuple[Route, ...]:
    """`browser`: there is one."""
    lanes = settings.lane_weights.keys()
    given = tuple(_route(entry, lanes) for entry in settings.challenge_routes)
    return given or ((TO_BROWSER,) if browser and settings.escalate else ())


def _route(entry: str, lanes: Set[str]) -> Route:
    by, _, name = entry.partition(":")
    if by not in ("lane", "pool") or not name:
        raise SettingsError(f"challenge_routes: {entry!r} is no route; write lane:NAME or pool:NAME")
    if by == "lane" and name not in lanes:  # nobody would ever claim from it
        raise SettingsError(f"challenge_routes: there is no lane named {name!r}; add it with lanes")
    return Route(cast("Literal['lane', 'pool']", by), name)


def route(
    challenge: Challenge,
    response: Response,
    task: Task,
    settings: Settings,
    *,
    now: float,
    rng: random.Random,
    browser: bool = False,
) -> Retry | Dead | None:
    """The verdict; None: the page is for the handler after all."""
    kind = kind_of(challenge)
    failure = Failure(
        kind,
        str(challenge),
        at=now,
        status=response.status,
        elapsed=response.elapsed,
        attempt=task.attempt,
        via=response.via,
    )
    helps = browser and kind != "login_wall"  # a browser does not log in either
    steps = _steps(kind, routes_of(settings, browser=helps))
    met = sum(failure.kind == kind for failure in this_life(task))
    if kind == "empty_shell" and isinstance(response, Rendered) and TO_BROWSER in steps:
        met = max(met, steps.index(TO_BROWSER) + 1)  # it may have gone there without a plain fetch
    if met < len(steps):
        way = steps[met]
        wait = _wait(response, met, settings, now, rng) if kind == "challenge" else 0.0
        return Retry(
            wait,
            failure,
            lane=way.name if way is not None and way.by == "lane" else None,
            pool=way.name if way is not None and way.by == "pool" else None,
        )
    return None if kind == "empty_shell" else Dead(failure, snapshot_of(response, settings))


def kind_of(challenge: Challenge) -> str:
    """Its row in policy/outcomes.py. Captchas and walls against bots are evidence against the host."""
    return challenge.kind if challenge.kind in ("login_wall", "empty_shell") else "challenge"


def _steps(kind: str, routes: tuple[Route, ...]) -> tuple[Step, ...]:
    if kind == "challenge":
        return (None, *routes)
    return routes if kind == "login_wall" else tuple(way for way in routes if way.by == "lane")


def _wait(response: Response, met: int, settings: Settings, now: float, rng: random.Random) -> float:
    delay = min(settings.challenge_delay * 2.0 ** min(met, _MAX_EXPONENT), settings.retry_after_cap)
    asked = retry_after(response.headers.get("Retry-After"), now, settings.retry_after_cap) or 0.0
    delay = max(delay, asked)
    return delay + rng.uniform(0.0, delay * _JITTER)


# -- detection as the settings say, with a function of the user's


Check: TypeAlias = Callable[[Response], str | None]

_KINDS = frozenset(get_args(ChallengeKind))


class Challenges:
    """Detects challenges as the settings say. Made once per process; raises for wrong settings. `browser`: there is one
    to open pages with."""

    def __init__(self, settings: Settings, *, browser: bool = False) -> None:
        self._settings = settings
        self._browser = browser
        self._check = load_check(settings.challenge_check) if settings.challenge_check else None
        self._wanted = set(settings.challenges)
        self.escalates = settings.escalate and TO_BROWSER in routes_of(settings, browser=browser)
        if not any(way.by == "lane" for way in routes_of(settings, browser=browser)):
            self._wanted.discard("empty_shell")  # without another lane nothing can be done about it
        self._broken = False

    def look(self, response: Response, asked: str | None = None) -> Challenge | None:
        """The challenge that came instead of the page, if any. `asked` is the URL before redirects."""
        if response.status in self._settings.handle_status:
            return None
        found = detect(response, asked) if self._wanted else None
        if found is not None and found.kind in self._wanted:
            return found
        return self._ask(response) if self._check is not None else None

    def route(
        self, challenge: Challenge, response: Response, task: Task, *, now: float, rng: random.Random
    ) -> Retry | Dead | None:
        """The verdict; None: the page is for the handler after all."""
        return route(challenge, response, task, self._settings, now=now, rng=rng, browser=self._browser)

    def _ask(self, response: Response) -> Challenge | None:
        assert self._check is not None
        try:
            said = self._check(response)
        except Exception as error:
            if not self._broken:  # reported once: it is called for every page
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

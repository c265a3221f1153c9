"""The Referer of a request that a page makes, by the rules of Referrer Policy (W3C). Pure.

    policy                            same origin   another origin      from https to http
    ───────────────────────────────   ───────────   ─────────────────   ──────────────────
    no-referrer                       none          none                none
    same-origin                       the URL       none                none
    origin                            the origin    the origin          the origin
    strict-origin                     the origin    the origin          none
    origin-when-cross-origin          the URL       the origin          the origin
    strict-origin-when-cross-origin   the URL       the origin          none

What a page says about itself counts more than the setting, as in browsers; but where it would show more than the last
of these to other sites (unsafe-url), the last is kept to.

Of a task, the path is stored if the origin is that of its own URL: a queue holds millions of them.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.admit.identity import origin

NEVER, FORMS = "none", "forms"  # values of the setting that are not policies
BROWSER = "strict-origin-when-cross-origin"  # what browsers do if a page says nothing
POLICIES = frozenset(
    {
        "no-referrer",
        "same-origin",
        "origin",
        "strict-origin",
        "origin-when-cross-origin",
        BROWSER,
    }
)
_WIDER = frozenset({"unsafe-url", "no-referrer-when-downgrade"})
_LONGEST = 4096  # characters; of a longer URL only the origin is sent, as browsers do
_SAFE = frozenset({"GET", "HEAD"})


def policy_in(text: str) -> str:
    """The last policy that is known in a Referrer-Policy header; "" if there is none."""
    found = ""
    for word in text.lower().split(","):
        word = word.strip()
        if word in POLICIES:
            found = word
        elif word in _WIDER:
            found = BROWSER
    return found


def referer_to(url: str, source: str, policy: str) -> str:
    """What a page at `source` sends to `url`; "" for nothing."""
    if policy == "no-referrer" or not source.startswith(("http://", "https://")):
        return ""
    here, same = f"{origin(source)}/", origin(source) == origin(url)
    whole = source.partition("#")[0]
    whole = here if len(whole) > _LONGEST else whole
    if policy.startswith("strict") and source.startswith("https:") and url.startswith("http:"):
        return ""
    if policy == "same-origin":
        return whole if same else ""
    if policy in ("origin", "strict-origin"):
        return here
    return whole if same else here


class Referrer:
    """The page that makes requests. `own_policy` says what it wants itself, and is asked when it is first needed."""

    def __init__(self, setting: str, url: str, own_policy: Callable[[], str]) -> None:
        self._setting = setting
        self._url = url
        self._own_policy = own_policy
        self._policy: str | None = None

    def header_for(self, url: str, method: str) -> str | None:
        """As it is stored; None for no header."""
        if self._setting == FORMS and method in _SAFE:
            return None
        sent = referer_to(url, self._url, self._ask())
        return stored(sent, url)

    def let_go(self) -> None:
        """Forgets the page, whose markup takes memory, and asks before if its links may be asked about again."""
        if self._setting != FORMS:
            self._ask()
        self._own_policy = str

    def _ask(self) -> str:
        if self._policy is None:
            usual = BROWSER if self._setting == FORMS else self._setting
            self._policy = self._own_policy() or usual
        return self._policy


def stored(sent: str, url: str) -> str | None:
    """A Referer as it is stored with a request for `url`."""
    if not sent:
        return None
    here = origin(url)
    return sent[len(here) :] if sent.startswith(f"{here}/") else sent


def restored(kept: str, url: str) -> str:
    return f"{origin(url)}{kept}" if kept.startswith("/") else kept


def after_redirect(kept: str, url: str, to: str) -> str | None:
    """The stored Referer of a task that was redirected: to another origin it shows no more than the origin."""
    return stored(referer_to(to, restored(kept, url), BROWSER), to)

"""Pages that are not the page: captchas, walls against bots and visitors without a login, shells for scripts to fill.

`detect` recognises them by status, headers and body; `Challenges` adds the settings and a function of the user's, and
`route` says what follows: a slow retry, then other routes, then the dead letters.
"""

from __future__ import annotations

from shoal.fetch.challenge.signatures import Challenge, detect
from shoal.fetch.challenge.verdict import Challenges, route

__all__ = ["Challenge", "Challenges", "detect", "route"]

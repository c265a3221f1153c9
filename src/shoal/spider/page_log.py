"""`page.log`: a logger that says which page it is about."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from shoal.text import shown_url

LOGGER = "spider"


class PageLog(logging.LoggerAdapter[logging.Logger]):
    """A record has `job`, `url` and `handler` as attributes, beside what is given as `extra`."""

    def __init__(self, job: str, url: str, handler: str) -> None:
        super().__init__(logging.getLogger(LOGGER), {"job": job, "url": shown_url(url), "handler": handler})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs

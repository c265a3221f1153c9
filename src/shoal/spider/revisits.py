"""Whether a spider and its settings want pages to be visited again."""

from __future__ import annotations

from shoal.settings import Settings
from shoal.spider.spider import Spider


def revisits_of(spider: Spider, settings: Settings) -> list[str]:
    """What the settings and each handler say of it: "1h", "auto", "never" or nothing."""
    return [settings.revisit, *(handler.revisit for handler in spider.handlers.values())]


def visits_again(spider: Spider, settings: Settings) -> bool:
    return any(text.strip() not in ("", "never") for text in revisits_of(spider, settings))

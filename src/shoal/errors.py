"""Errors that leave Shoal.

    ShoalError
    ├── UsageError            the user's input is wrong; the message says where and what is allowed (exit code 2)
    │   ├── SettingsError     a bad key or value in a file, the environment, a flag or a spider
    │   │   └── SessionKeyError  cookies in the store cannot be read with this session_key
    │   ├── SpiderError       a spider that cannot be loaded or is written wrongly
    │   │   ├── HandlerMissing pages wait for a handler that the spider no longer has
    │   │   └── JobHookError   a hook at the start or the end of a job failed
    │   └── UrlError          not a URL that can be crawled
    ├── StoreError            the frontier's home cannot be used (exit code 3)
    │   ├── StoreFull         no space left, read-only, or an I/O error: nothing is lost, free space and run again
    │   └── StoreVersionError written by another version of Shoal
    ├── SinkError             results cannot be written (exit code 3)
    │   ├── OutputTaken       the file holds something else, or belongs to another job
    │   └── SinkAway          the output cannot be reached now: its rows wait, and are written when it is back
    ├── CrawlFailed           a crawl ended, but too many of its pages failed (exit code 1)
    ├── PageMissing           a page that a command of development needs cannot be fetched (exit code 1)
    └── TrustError            a job asks a worker for what only the worker's own settings may grant (exit code 3)

A failed fetch is not an error but a value (`model.Failure`). Every message is one line that says what happened,
where, and what to do next, and carries no credentials.
"""

from __future__ import annotations


class ShoalError(Exception):
    """The base of all errors that Shoal raises on purpose."""

    exit_code = 1  # of the command line

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """The message with line ends and control characters as escapes: quoted text may come from anywhere, and must
    neither begin a second line in a log nor control a terminal."""
    if message.isprintable():
        return message
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in message)


class UsageError(ShoalError):
    """What the user gave is wrong. The message says where, and what is allowed."""

    exit_code = 2


class SettingsError(UsageError):
    """A bad key or value in a file, the environment, an option or a spider."""


class SessionKeyError(SettingsError):
    """Cookies in the store cannot be read with this `session_key`."""


class SpiderError(UsageError):
    """A spider cannot be loaded, or is written wrongly."""


class HandlerMissing(SpiderError):
    """Pages wait for a handler that the spider no longer has."""


class JobHookError(SpiderError):
    """A hook at the start or the end of a job failed."""


class UrlError(UsageError):
    """This is not a URL that can be crawled."""


class StoreError(ShoalError):
    """The store cannot be used."""

    exit_code = 3


class StoreFull(StoreError):
    """The store cannot be written to: no space left, read-only, or an I/O error. Nothing is lost."""


class StoreVersionError(StoreError):
    """The store was written by another version of Shoal."""


class SinkError(ShoalError):
    """Rows cannot be written."""

    exit_code = 3


class OutputTaken(SinkError):
    """The output file holds something else, or belongs to another job."""


class SinkAway(SinkError):
    """The output cannot be reached now. Its rows wait, and are written when it is back."""

    def __init__(self, sink: str, reason: str, advice: str = "", *, lasts: bool = False) -> None:
        super().__init__(f"cannot write to {sink}: {reason}{f'; {advice}' if advice else ''}")
        self.sink, self.reason = sink, reason
        self.lasts = lasts  # it does not pass by itself


class CrawlFailed(ShoalError):
    """A crawl ended, but too many of its pages failed."""


class PageMissing(ShoalError):
    """A page that a command of development needs cannot be fetched."""

    def __init__(self, url: str, detail: str, *, kind: str = "not_archived") -> None:
        super().__init__(f"{url}: {detail}")
        self.url, self.detail, self.kind = url, one_line(detail), kind


class TrustError(ShoalError):
    """A job asks a worker for what only the worker's own settings may grant."""

    exit_code = 3

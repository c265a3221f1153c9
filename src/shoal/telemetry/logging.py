"""The log: the standard library's, on stderr: Shoal's under the name "shoal", and that of spiders under any name. One
plain line a record, or one JSON object.

A JSON line has the keys time, level, event (a name of shoal.events), message and fields.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from shoal.errors import UsageError
from shoal.limits import LOG_MESSAGE, TRACEBACK
from shoal.text import without_secrets, writable
from shoal.text.humanize import printable

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "warning"
FORMATS = ("text", "json")
FORMAT_VARIABLE = "SHOAL_LOG_FORMAT"

PRINTED = "print"  # the logger of what spiders print
# What Shoal uses, and nobody has asked about: only their warnings are told, whatever the level.
LIBRARIES = (
    *(
        "asyncio",
        "asyncpg",
        "boto3",
        "botocore",
        "h2",
        "hpack",
        "opentelemetry",
        "PIL",
        "playwright",
    ),
    *("psycopg", "redis", "urllib3", "uvicorn", "websockets"),
)
_USUAL = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))  # of every record

log = logging.getLogger("shoal")


class Line(Struct, frozen=True):
    """One line of a log in JSON."""

    time: str  # UTC, to the millisecond
    level: str
    event: str
    message: str
    fields: dict[str, object]


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802
        """An error may have a whole page as its message."""
        trace = super().formatException(ei)
        return trace if len(trace) <= TRACEBACK else f"{trace[:TRACEBACK]}…"


class JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = dict(record.fields) if is_ours(record) and hasattr(record, "fields") else _own_fields(record)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        fields = _clean(msgspec.to_builtins(fields, enc_hook=str))
        line = Line(
            at.replace("+00:00", "Z"),
            record.levelname.lower(),
            getattr(record, "event", "log") if is_ours(record) else "log",
            without_secrets(_cut(record.getMessage())),
            fields,
        )
        try:
            return msgspec.json.encode(line).decode()
        except UnicodeEncodeError:
            return msgspec.json.encode(writable(msgspec.to_builtins(line))).decode()


class TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if record.name == PRINTED:
            return record.getMessage()
        return without_secrets(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        if not is_ours(record):
            record.message = as_text(_cut(record.message), _own_fields(record))
        return super().formatMessage(record)


def as_text(message: str, fields: Mapping[str, object]) -> str:
    """A message of a spider with the name of its logger: "shop: sold out". With `page.log`, with job, handler and URL:
    "books.product: sold out (https://…)"."""
    if fields.keys() >= {"job", "handler", "url"}:
        return f"{fields['job']}.{fields['handler']}: {message} ({fields['url']})"
    return f"{fields['logger']}: {message}" if "logger" in fields else message


def is_ours(record: logging.LogRecord) -> bool:
    """Whether Shoal logs it, and not a spider or a library."""
    return record.name.partition(".")[0] == "shoal"


def _own_fields(record: logging.LogRecord) -> dict[str, object]:
    """What a record of somebody else has besides its message: the logger, and what was given as `extra`."""
    fields: dict[str, object] = {} if is_ours(record) else {"logger": record.name}
    for name, value in vars(record).items():
        if name not in _USUAL:
            plain = value is None or isinstance(value, str | int | float | bool)
            fields[name] = value if plain else _cut(str(value))
    return fields


def _cut(message: str) -> str:
    """A message may be a whole page."""
    return (
        message if len(message) <= LOG_MESSAGE else f"{message[:LOG_MESSAGE]}… ({len(message):,} characters)"
    )


def _clean(value: Any) -> Any:
    """Before it is JSON: in JSON, what begins in one value could seem to end in the next."""
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {_clean(key): _clean(one) for key, one in value.items()}
        case list():
            return [_clean(one) for one in value]
    return value


class StderrHandler(logging.Handler):
    """Looks stderr up for every record: while the live view is up, stderr is a proxy that prints above it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{printable(self.format(record))}\n")
        except Exception:
            self.handleError(record)


def set_up(level: str, form: str | None = None) -> None:
    """Sends the log to stderr from `level` on; may be called again to change it. The format is what the environment
    says, if it is not given."""
    name, form = level.strip().lower(), (form or os.environ.get(FORMAT_VARIABLE) or "text").strip().lower()
    if name not in LEVELS:
        raise UsageError(f"log level {level!r} is not known: use one of {', '.join(LEVELS)}")
    if form not in FORMATS:
        raise UsageError(f"log format {form!r} is not known: use one of {', '.join(FORMATS)}")
    plain = TextFormatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler = next((known for known in log.handlers if isinstance(known, StderrHandler)), StderrHandler())
    handler.setFormatter(JsonFormatter() if form == "json" else plain)
    log.propagate = False
    for logger in (log, logging.getLogger()):  # the second is for spiders, whose loggers have any name
        logger.addHandler(handler)
        logger.setLevel(name.upper())
    for library in LIBRARIES:
        logger = logging.getLogger(library)
        if logger.level == logging.NOTSET:  # else somebody wants to see more of it, or less
            logger.setLevel(logging.WARNING)


def level() -> str:
    """From which level on the log is told."""
    return logging.getLevelName(log.getEffectiveLevel()).lower()


def is_json() -> bool:
    """Whether the log is one of JSON lines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in log.handlers)


def only_json() -> bool:
    """Whether nothing but JSON lines may go to stderr, because no person looks at it."""
    return is_json() and not sys.stderr.isatty()

"""The log: the standard library's, under the name "shoal", on stderr. One plain line a record, or one JSON object.

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
from shoal.humanize import printable
from shoal.text import without_secrets, writable

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "warning"
FORMATS = ("text", "json")
FORMAT_VARIABLE = "SHOAL_LOG_FORMAT"

log = logging.getLogger("shoal")


class Line(Struct, frozen=True):
    """One line of a log in JSON."""

    time: str  # UTC, to the millisecond
    level: str
    event: str
    message: str
    fields: dict[str, object]


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        fields = _clean(msgspec.to_builtins(fields, enc_hook=str))
        line = Line(
            at.replace("+00:00", "Z"),
            record.levelname.lower(),
            getattr(record, "event", "log"),
            without_secrets(record.getMessage()),
            fields,
        )
        try:
            return msgspec.json.encode(line).decode()
        except UnicodeEncodeError:
            return msgspec.json.encode(writable(msgspec.to_builtins(line))).decode()


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


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
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(name.upper())


def is_json() -> bool:
    """Whether the log is one of JSON lines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in log.handlers)


def only_json() -> bool:
    """Whether nothing but JSON lines may go to stderr, because no person looks at it."""
    return is_json() and not sys.stderr.isatty()


def environment() -> Mapping[str, str]:
    """The environment for a child process, whose log is like ours."""
    return {**os.environ, FORMAT_VARIABLE: "json" if is_json() else "text"}


_decode = msgspec.json.Decoder(Line).decode


def relay(line: str, **more: object) -> None:
    """Says again what a child process said on its stderr; in JSON, as if it had been said here."""
    try:
        said = _decode(line) if is_json() else None
    except msgspec.DecodeError:
        said = None
    if said is None:
        who = ", ".join(f"{name} {value}" for name, value in more.items())
        log.warning("%s: %s", who, line)
        return
    level = logging.getLevelNamesMapping().get(said.level.upper(), logging.WARNING)
    log.log(level, "%s", said.message, extra={"event": said.event, "fields": {**said.fields, **more}})

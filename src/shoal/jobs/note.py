"""What a job remembers of the run that last opened it: where its rows go, and by which settings it crawls.

So commands that look at a crawl from outside judge by its own settings, whichever file, spider or options they came
from. Values that may be secrets are not written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import msgspec.inspect
from msgspec import Struct

from shoal.frontier.values import JobSpec
from shoal.settings import SECRET as SECRET
from shoal.settings import HostSettings, Settings, masked
from shoal.text import UNREADABLE, command

if TYPE_CHECKING:
    from shoal.spider.spider import Spider

SUMMARY = "shoal:summary"  # the spider of URLs that were submitted without one; every worker has it

_NAMED = 3  # jobs, in a sentence about several
_DEFAULTS = msgspec.to_builtins(Settings())


# Who reads the start URLs: the crawl itself; whoever submitted them; or the coordinator, which asks the spider. Jobs of
# the latter two kinds are for a fleet's workers.
FedBy = Literal["crawl", "submit", "coordinator"]


class JobNote(Struct, frozen=True, omit_defaults=True):
    output: bytes = b""  # the result file's path or the database's address; empty: standard output or memory
    settings: dict[str, Any] | None = None  # those that differ from the defaults; None: not known
    fed_by: FedBy = "crawl"
    fresh: bool = False  # a worker may move a file aside that an earlier job of this name has written
    # The spider's handlers with their lanes and priorities, the first one first: what is needed to add URLs where the
    # spider's code is not. None: an earlier version did not note them.
    handlers: dict[str, tuple[str, int]] | None = None


encode_note = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JobNote).decode


def handlers_of(spider: Spider) -> dict[str, tuple[str, int]]:
    return {name: (handler.lane, handler.priority) for name, handler in spider.handlers.items()}


def write_note(
    output: bytes,
    settings: Settings,
    fed_by: FedBy = "crawl",
    handlers: Mapping[str, tuple[str, int]] | None = None,
    *,
    fresh: bool = False,
) -> bytes:
    hosts = {name: _without_values(table) for name, table in settings.host.items()}
    given = {
        key: value
        for key, value in msgspec.to_builtins(msgspec.structs.replace(settings, host=hosts)).items()
        if value != _DEFAULTS[key] and key not in SECRET
    }
    noted = None if handlers is None else dict(handlers)
    return encode_note(JobNote(output, given, fed_by, fresh, noted))


def _without_values(table: HostSettings) -> HostSettings:
    """Only the names of a host's headers are stored."""
    return msgspec.structs.replace(table, headers=masked(table.headers)) if table.headers else table


def note_of(spec: JobSpec) -> JobNote:
    try:
        return _decode(spec.settings) if spec.settings else JobNote()
    except UNREADABLE:
        return JobNote()  # written by another version


def is_for_fleet(spec: JobSpec) -> bool:
    return note_of(spec).fed_by != "crawl"


def nobody_works(specs: Iterable[JobSpec]) -> list[str]:
    """What to do about jobs that no process works on, one sentence for each kind of job."""
    said: dict[str, list[str]] = {}
    for spec in specs:
        said.setdefault(_goes_on(spec), []).append(spec.name)
    return [f"no worker is running for {_named(names)}: {hint}" for hint, names in said.items()]


def _goes_on(spec: JobSpec) -> str:
    if not is_for_fleet(spec):
        return "run the shoal crawl again that it was made with"
    return f"start one with: {command('worker' if spec.spider == SUMMARY else 'worker FILE.py')}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"job{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"


def settings_of(spec: JobSpec) -> Settings | None:
    """The settings the job last ran by, without the secret ones; None if they are not known."""
    given = note_of(spec).settings
    if given is None:
        return None
    try:
        return msgspec.convert(given, Settings)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_within_bounds(given), Settings)
    except msgspec.ValidationError:
        return None


def _within_bounds(given: Mapping[str, Any]) -> dict[str, Any]:
    """With smaller numbers in place of those that an earlier version let pass: without them, none of the job's settings
    would be known."""
    from shoal.settings.typed_text import common_bound

    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    most = {key: common_bound(msgspec.inspect.type_info(types[key])) for key in given if key in types}
    return {
        key: min(value, bound) if isinstance(value, int | float) and (bound := most.get(key)) else value
        for key, value in given.items()
    }

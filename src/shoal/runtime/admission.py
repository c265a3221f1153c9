"""Admission of a job's URLs: by its spider, or by what the job notes about its handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from shoal.admit import Admission
from shoal.jobs.note import handlers_of
from shoal.policy.host_table import HostTable
from shoal.settings import HostSettings, Settings
from shoal.spider.spider import Spider

if TYPE_CHECKING:
    pass


Own = Callable[[str], HostSettings]


def make_admission(spider: Spider, settings: Settings, own: Own | None = None) -> Admission:
    """`own`: the settings of a host, if more is known about them than the job's settings say."""
    spider.handler_named("")  # raises an error if it has no handler
    return admission_by(handlers_of(spider), settings, spider.start_urls_known(), own)


def admission_by(
    handlers: Mapping[str, tuple[str, int]],
    settings: Settings,
    starts: Iterable[str] = (),
    own: Own | None = None,
) -> Admission:
    """`handlers`: their lanes and priorities by name, the first handler first."""
    first = next(iter(handlers))
    return Admission(
        settings, starts, {**handlers, "": handlers[first]}, first, own or HostTable(settings.host).of
    )

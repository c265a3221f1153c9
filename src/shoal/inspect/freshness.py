"""How fresh the pages of a standing job are: which were checked within their interval, which are overdue, what is due.

A page that waits for its next visit is on time until it is due. One whose visit is due, stands in its queue, is under
way or is repeated is overdue. `shoal status`, `shoal top`, the live panel, the dashboard and the metrics all show this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, inf

from msgspec import Struct

from shoal.frontier.following import Followed, Following
from shoal.frontier.values import Job
from shoal.model import counts
from shoal.model.page_record import PageRecord
from shoal.policy.change_rate import changes_every
from shoal.text import command, humanize, one_line

# Upper edges of the histogram of next visits, in seconds from now.
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
EDGES = (
    *(_MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY),
)
MOST_PAGES = 20  # of a list
MOST_HOSTS = 100


class Visits(Struct, frozen=True):
    """What the visits of a job have shown, since it began."""

    visits: int = 0
    unchanged: int = 0
    changed: int = 0
    gone: int = 0
    missed: int = 0
    held: int = 0


class Freshness(Struct, frozen=True):
    followed: int  # pages that are visited again and again
    overdue: int  # of these, those whose next visit is due
    next_due: float | None = None  # when the next visit is due, in the frontier's time; None: no page waits
    oldest_due: float | None = None  # when the visit was due that is overdue longest; None: none is
    about: bool = False  # estimated from a part of the pages
    new: int = 0  # pages that are known, and have not been visited yet
    failing: int = 0  # pages whose last visit came to nothing: missed or gone
    held: int = 0  # pages whose items were held back at their last visit: it was no failure
    visits: Visits = Visits()

    @property
    def on_time(self) -> int:
        return self.followed - self.overdue

    @property
    def ratio(self) -> float | None:
        """Share of the pages that were checked within their interval; None: no page is followed."""
        return self.on_time / self.followed if self.followed else None


def is_standing(job: Job) -> bool:
    """Whether pages of the job are visited again and again. Known from its first visit on."""
    return bool(job.counters.waiting or job.counts.get(counts.VISITS))


def visited(job: Job) -> int:
    """How often pages were done with: for good, or until their next visit."""
    return job.counters.done + job.counts.get(counts.VISITS, 0)


def visits_of(found: Mapping[str, int]) -> Visits:
    return Visits(*(found.get(name, 0) for name in counts.VISIT_COUNTS))


def freshness_of(job: Job, following: Following, now: float) -> Freshness:
    c = job.counters
    waiting = [page for page in following.pages if page.waits]
    late = [page.due for page in waiting if page.due <= now]
    others = [page.due for page in following.pages if not page.waits]
    # Nobody has claimed them since they were due: no worker is there.
    unclaimed = ceil(c.waiting * len(late) / len(waiting)) if waiting else 0
    failing = _scaled(following.pages, c.waiting, lambda page: _failures(page) > 0)
    held = _scaled(following.pages, c.waiting, lambda page: _trouble(page) > 0 and not _failures(page))
    next_due = following.next_due
    if next_due is not None and next_due <= now and len(late) < len(waiting):
        next_due = min(page.due for page in waiting if page.due > now)
    return Freshness(
        followed=c.waiting + len(others),
        overdue=unclaimed + len(others),
        next_due=next_due if c.waiting else None,
        oldest_due=min([*late, *others], default=None),
        about=not following.whole,
        new=max(0, c.open - c.waiting - len(others)),
        failing=failing,
        held=held,
        visits=visits_of(job.counts),
    )


_LATE = 60.0  # seconds
_MOST_LATE = 0.01  # share of the pages


def is_late(freshness: Freshness, now: float) -> bool:
    """Whether a person should look: more than a few pages are overdue, and not just since now."""
    oldest = freshness.oldest_due
    return oldest is not None and now - oldest > _LATE and freshness.overdue > _MOST_LATE * freshness.followed


# -- in words


def in_words(freshness: Freshness, now: float) -> str:
    """ "following 5,000 pages; 4,980 on time, 20 overdue, the oldest by 3 h; next visit in 12 min"."""
    parts = [f"following {humanize.plural(freshness.followed, 'page')}", _on_time(freshness, now)]
    if (due := freshness.next_due) is not None and due - now >= 1:
        parts.append(f"next visit in {humanize.span(due - now)}")
    if freshness.failing:
        parts.append(f"{humanize.plural(freshness.failing, 'page')} failed at the last visit")
    if freshness.held:
        pages = "1 page is" if freshness.held == 1 else f"{humanize.count(freshness.held)} pages are"
        parts.append(f"{pages} held back, as rows or fields are missing ({command('quality')})")
    return "; ".join(part for part in parts if part)


def _on_time(freshness: Freshness, now: float) -> str:
    if not freshness.followed:
        return ""
    if not freshness.overdue:
        return "all on time"
    said = f"{humanize.count(freshness.on_time)} on time, {humanize.count(freshness.overdue)} overdue"
    if (oldest := freshness.oldest_due) is not None and now - oldest >= 1:
        said += f", the oldest by {humanize.span(now - oldest)}"
    return f"about {said}" if freshness.about else said


def said_of_visits(record: PageRecord, now: float) -> str:
    """ "visited 14 times, changes about every 2 d, unchanged for 3 d"."""
    times = {1: "once", 2: "twice"}.get(record.visits) or f"{humanize.count(record.visits)} times"
    parts = [f"visited {times}"]
    if (every := changes_every(record.rate)) is not None:
        parts.append(f"changes about every {humanize.span(every)}")
    if record.visits > 1 and record.changed_at and record.changed_at < record.checked_at:
        parts.append(f"unchanged for {humanize.span(now - record.changed_at)}")
    elif record.visits > 1:
        parts.append(f"changed at its last visit, {humanize.span(now - record.checked_at)} ago")
    else:
        parts.append(f"{humanize.span(now - record.checked_at)} ago")
    return ", ".join(parts)


def results_in_words(visits: Visits) -> str:
    """ "70,000 visits: 61,200 unchanged · 8,700 changed · 90 missed · 10 gone"; "" if there were none."""
    if not visits.visits:
        return ""
    found = {
        "first": visits.visits - visits.unchanged - visits.changed - visits.held,
        "unchanged": visits.unchanged,
        "changed": visits.changed,
        "missed": visits.missed,
        "gone": visits.gone,
        "held back": visits.held,
    }
    results = " · ".join(f"{humanize.count(number)} {name}" for name, number in found.items() if number)
    return f"{humanize.plural(visits.visits, 'visit')}{': ' if results else ''}{results}"


# -- in detail, for the page of the dashboard


class PageView(Struct, frozen=True):
    """A page that is followed."""

    url: str
    host: str
    handler: str
    due: float  # when its next visit is due, or was
    overdue: bool
    visits: int
    checked_at: float  # 0: never
    changed_at: float  # when it was last found to be new or changed
    interval: float  # seconds between two visits, as planned
    changes_every: float | None  # seconds between two changes, about; None: none was found yet
    gone: int  # how often in a row it was not there
    missed: int  # … or could not be fetched
    held: int  # … or its items were held back
    trouble: str  # why its last visit came to nothing


class HostFreshness(Struct, frozen=True):
    host: str
    followed: int
    overdue: int
    oldest_due: float | None  # when the visit was due that is overdue longest
    next_due: float | None


class FreshnessDetails(Struct, frozen=True):
    due: Sequence[int]  # pages by when they are due: overdue, then up to each of EDGES, then later ones
    hosts: Sequence[HostFreshness] = ()  # those with most overdue pages first
    restless: Sequence[
        PageView
    ] = ()  # the pages that are visited most often, and of these those that changed last
    overdue: Sequence[PageView] = ()  # those that are overdue longest
    troubled: Sequence[PageView] = ()  # gone, missed or held back at their last visit


def details_of(job: Job, following: Following, now: float) -> FreshnessDetails:
    pages = following.pages
    restless = sorted((page for page in pages if _changes(page)), key=lambda page: _every(page) or inf)
    overdue = sorted((page for page in pages if _is_overdue(page, now)), key=lambda page: page.due)
    troubled = sorted(
        (page for page in pages if _trouble(page)), key=lambda page: (-_trouble(page), page.due)
    )
    return FreshnessDetails(
        _histogram(pages, now, job.counters.waiting),
        _by_host(pages, now),
        *([_view(page, now) for page in some[:MOST_PAGES]] for some in (restless, overdue, troubled)),
    )


def _factor(pages: Iterable[Followed], waiting: int) -> float:
    """How many pages each one of a sample stands for, of those that wait."""
    sample = sum(page.waits for page in pages)
    return waiting / sample if 0 < sample < waiting else 1.0


def _scaled(pages: Sequence[Followed], waiting: int, counts: Callable[[Followed], bool]) -> int:
    factor = _factor(pages, waiting)
    return round(sum(factor if page.waits else 1.0 for page in pages if counts(page)))


def _histogram(pages: Sequence[Followed], now: float, waiting: int) -> list[int]:
    factor = _factor(pages, waiting)
    found: list[float] = [0.0] * (len(EDGES) + 2)
    for page in pages:
        left = page.due - now
        place = 0 if _is_overdue(page, now) else 1 + sum(left > edge for edge in EDGES)
        found[place] += factor if page.waits else 1.0
    return [round(number) for number in found]


def _by_host(pages: Iterable[Followed], now: float) -> list[HostFreshness]:
    followed: Counter[str] = Counter()
    overdue: dict[str, list[float]] = {}
    coming: dict[str, float] = {}
    for page in pages:
        host = page.task.host
        followed[host] += 1
        if _is_overdue(page, now):
            overdue.setdefault(host, []).append(page.due)
        else:
            coming[host] = min(page.due, coming.get(host, page.due))
    found = [
        HostFreshness(
            host, number, len(late := overdue.get(host, ())), min(late, default=None), coming.get(host)
        )
        for host, number in followed.items()
    ]
    return sorted(found, key=lambda one: (-one.overdue, -one.followed, one.host))[:MOST_HOSTS]


def _is_overdue(page: Followed, now: float) -> bool:
    return not page.waits or page.due <= now


def _every(page: Followed) -> float | None:
    """Seconds between two changes of the page; None: none was found yet."""
    return changes_every(page.task.record.rate) if page.task.record is not None else None


def _changes(page: Followed) -> bool:
    """Whether visits have found a change. With a fixed interval nobody learns how often: then the last visit tells."""
    record = page.task.record
    if record is None or record.visits < 2:
        return False
    return _every(page) is not None or record.changed_at == record.checked_at


def _failures(page: Followed) -> int:
    record = page.task.record
    return record.gone + record.missed if record is not None else 0


def _trouble(page: Followed) -> int:
    record = page.task.record
    return _failures(page) + (record.held if record is not None else 0)


def _view(page: Followed, now: float) -> PageView:
    task, record = page.task, page.task.record
    assert record is not None
    return PageView(
        one_line(task.url),
        task.host,
        task.handler,
        page.due,
        _is_overdue(page, now),
        record.visits,
        record.checked_at,
        record.changed_at,
        record.interval,
        changes_every(record.rate),
        record.gone,
        record.missed,
        record.held,
        record.trouble,
    )

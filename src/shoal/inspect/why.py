"""Why a URL has (not) been fetched: from facts to plain sentences, the most decisive first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from shoal.admit import Admission, Canonicaliser, fingerprint, host_key, sent_url
from shoal.admit.identity import scheme
from shoal.errors import UsageError
from shoal.frontier.protocol import Frontier, Hosts
from shoal.frontier.values import Job, Place, Whereabouts, WorkerRecord
from shoal.hosts.host_state import state_of
from shoal.hosts.stored_settings import read_stored_settings
from shoal.inspect.freshness import said_of_visits
from shoal.inspect.host import Cause, HostView, causes, view_of, with_robots, with_sources
from shoal.inspect.lookup import chosen_jobs, held_at, rules_for, with_its_jobs
from shoal.jobs.note import nobody_works
from shoal.jobs.worker_status import WorkerStatus, is_silent, status_of
from shoal.model import DOUBT, Failure, Refused, Task
from shoal.model.page_record import PageRecord
from shoal.model.request import Request
from shoal.policy.escalation import pattern_of
from shoal.policy.outcomes import NOT_ASKED
from shoal.policy.quality_alarms import alarms
from shoal.settings import Settings
from shoal.text import command
from shoal.text.humanize import count, plural, span, speed

_SCOPE = {
    "host": "its host is outside the crawl's scope; the settings hosts and any_host widen it",
    "deny": "a pattern of the setting deny matches it",
    "allow": "no pattern of the setting allow matches it",
    "depth": "it lies deeper than the setting depth",
}


class Facts(Struct, frozen=True):
    """What is known about one URL in one job."""

    url: str  # as it would be sent
    now: float  # the frontier's time
    job: Job
    where: Whereabouts
    host: HostView | None = None  # None: never met
    allowed: bool = True  # by robots.txt, as far as it is known
    refusal: str | None = None  # why admission would refuse it as a link
    elsewhere: int = 0  # pending tasks of the host in other lanes and jobs
    workers: Sequence[WorkerRecord] = ()
    obeys_noindex: bool = False
    obeys_nofollow: bool = False


class Answer(Struct, frozen=True):
    url: str
    job: str
    place: Place
    causes: tuple[Cause, ...]  # the first one is the answer


def explain(facts: Facts) -> Answer:
    tell = {
        "unknown": _unknown,
        "pending": _pending,
        "delayed": _delayed,
        "leased": _leased,
        "dead": _dead,
        "done": _done,
        "merged": _merged,
    }[facts.where.place]
    found = [*tell(facts), *_moved(facts), *_quality(facts)]
    return Answer(facts.url, facts.job.spec.name, facts.where.place, tuple(found))


# -- where it is


def _done(facts: Facts) -> list[Cause]:
    found = [Cause("done", "done: fetched, there or where it redirected to")]
    if facts.obeys_noindex:
        found.append(
            Cause("noindex", f"no items if it asks for noindex (robots_meta): shoal fetch {facts.url}")
        )
    return found


def _merged(facts: Facts) -> list[Cause]:
    into = facts.where.into
    said = f"merged into {into}: it redirected there, and that page has a task of its own"
    return [
        Cause("merged", said),
        Cause("merged_into", f"{command(f'why {shlex.quote(into)}')} tells where that one is"),
    ]


def _dead(facts: Facts) -> list[Cause]:
    task = _task(facts)
    last = task.history[-1]
    tries = plural(sum(failure.kind not in NOT_ASKED for failure in task.history), "attempt")
    sentence = f"dead: {last.kind} after {tries}, {span(facts.now - facts.where.since)} ago"
    detail = f": {last.detail}" if last.detail else ""
    hint = (
        f"{command(f'dead show {task.id}')} tells all; {command(f'dead replay --id {task.id}')} tries again"
    )
    return [Cause("dead", sentence + detail), Cause("dead_letter", hint)]


def _leased(facts: Facts) -> list[Cause]:
    where, task = facts.where, _task(facts)
    worker = next((record for record in facts.workers if record.name == where.worker), None)
    spent = span(facts.now - where.since)
    if worker is None or is_silent(worker, facts.now):
        ends = span(max(0.0, where.deadline - facts.now))
        gone = "has gone" if worker is None else "cannot be heard"
        sentence = (
            f"its worker {gone}: it was taken {spent} ago and is given to another in {ends} at the latest"
        )
        return [Cause("worker_gone", sentence), *_nobody(facts)]
    attempt = f"attempt {task.attempt} of {_most(facts, task)}"
    name = status_of(worker).pid or worker.name
    return [Cause("in_flight", f"in flight at worker {name} for {spent} ({attempt})"), *_overdue(facts)]


def _delayed(facts: Facts) -> list[Cause]:
    task, wait = _task(facts), facts.where.due - facts.now
    if task.record is not None and task.record.visits and not task.history:
        return [*_waits(facts, task.record, wait), *_job(facts), *_nobody(facts)]
    when = f"retry in {span(wait)}" if wait > 0 else "retry is due"
    why = ""
    if task.history and (task.history[-1].kind in NOT_ASKED or _is_in_doubt(task.history[-1])):
        when, why = f"waiting for {span(max(0.0, wait))}", f": {task.history[-1].detail}"
    elif task.history:
        last = task.history[-1]
        why = f": attempt {task.attempt} of {_most(facts, task)} failed with {last.kind}"
        why += f" ({last.detail})" if last.detail else ""
    held = [*_overdue(facts), *_job(facts), *_nobody(facts), *_host(facts)]
    return [
        Cause("retry", when + why),
        *held,
        *(cause for cause in _browser(facts) if cause.sentence not in why),
    ]


def _waits(facts: Facts, record: PageRecord, wait: float) -> list[Cause]:
    """It was visited, and waits for its next visit."""
    due = f"next visit in {span(wait)}" if wait > 0 else f"its next visit has been due for {span(-wait)}"
    found = [Cause("next_visit", f"{said_of_visits(record, facts.now)}; {due}")]
    if record.trouble:
        failed = record.missed or record.gone
        missed = failed or record.held
        times = f"its last {plural(missed, 'visit')}" if missed > 1 else "its last visit"
        what = "came to nothing" if failed else "was held back" if missed == 1 else "were held back"
        found.append(Cause("missed" if failed else "held_back", f"{times} {what}: {record.trouble}"))
    return found


def _overdue(facts: Facts) -> list[Cause]:
    """Of a page that is visited again, and whose visit is due."""
    record = facts.where.task.record if facts.where.task is not None else None
    if record is None or not record.visits:
        return []
    late = facts.now - record.due
    due = f"; its next visit has been due for {span(late)}" if late >= 1 else ""
    return [Cause("followed", said_of_visits(record, facts.now) + due)]


def _is_in_doubt(failure: Failure) -> bool:
    """It may have been a proxy's fault, and took no attempt."""
    return failure.kind == DOUBT and not failure.attempt


def _pending(facts: Facts) -> list[Cause]:
    held = [*_job(facts), *_nobody(facts), *_host(facts), *_lane(facts)]
    first, *rest = [*held, *_turn(facts, first=not held), *_pressure(facts), *_browser(facts)]
    overdue = _overdue(facts)
    yet = "not visited again yet" if overdue else "not fetched yet"
    return [Cause(first.name, f"{yet}: {first.sentence}"), *overdue, *rest]


def _unknown(facts: Facts) -> list[Cause]:
    if facts.refusal is not None:
        meaning = _SCOPE.get(facts.refusal)
        reason = f"scope: {facts.refusal}: {meaning}" if meaning else facts.refusal
        return [Cause("refused", f"never seen, and a link to it would be refused ({reason})")]
    found = [Cause("never_seen", "never seen: no page has led to it so far")]
    if not facts.allowed:
        found.append(Cause("robots", "robots.txt forbids it"))
    found += _browser(facts)
    if facts.obeys_nofollow:
        said = "or the pages that lead to it ask for nofollow (robots_meta, rel_nofollow)"
        found.append(Cause("nofollow", said))
    if not facts.job.fed_all:
        fed = plural(facts.job.fed, "start URL")
        found.append(Cause("feeding", f"it may still be among the start URLs: {fed} read so far"))
    if budget := facts.job.spec.max_pages_per_host:
        said = f"or it was refused because its host had its {count(budget)} pages (max_pages_per_host)"
        found.append(Cause("host_budget", said))
    if facts.job.state != "running":
        found.append(Cause(f"job_{facts.job.state}", f"job {facts.job.spec.name} is {facts.job.state}"))
    return found


def _moved(facts: Facts) -> list[Cause]:
    task = facts.where.task
    if task is None or task.url == facts.url:
        return []
    if not task.hops:
        return [Cause("spelling", f"the same page is asked for as {task.url}, which was met first")]
    return [Cause("redirected", f"it redirected: its task is now at {task.url}")]


def _quality(facts: Facts) -> list[Cause]:
    """What is not as it was in the rows of its host."""
    if facts.host is None:
        return []
    hint = command(f"quality show {facts.host.name}")
    return [
        Cause("quality_alarm", f"the rows of its host are not as they were: {one.sentence}; see {hint}")
        for one in alarms(facts.host.state.quality)
    ]


# -- what is in the way


def _job(facts: Facts) -> list[Cause]:
    job = facts.job
    if job.spec.max_pages and job.counters.done >= job.spec.max_pages:
        had = f"job {job.spec.name} has its {count(job.spec.max_pages)} pages (max_pages)"
        return [Cause("page_budget", had)]
    if job.state == "running":
        return []
    return [Cause(f"job_{job.state}", f"job {job.spec.name} is {job.state}")]


def _nobody(facts: Facts) -> list[Cause]:
    if facts.job.state != "running" or _statuses(facts):
        return []
    [sentence] = nobody_works([facts.job.spec])
    return [Cause("no_worker", sentence)]


def _host(facts: Facts) -> list[Cause]:
    found = causes(facts.host) if facts.host is not None else []
    if facts.allowed:
        return found
    forbidden = Cause("robots", "robots.txt forbids it: when its turn comes, it is buried unfetched")
    return [forbidden, *found]


def _lane(facts: Facts) -> list[Cause]:
    """Of a task whose lane nobody takes from."""
    lane = facts.where.task.lane if facts.where.task is not None else None
    workers = _statuses(facts)
    if lane is None or not workers:
        return []
    serving = [worker for worker in workers if lane in worker.lanes]
    if not serving:
        return [Cause("lane_not_served", f"no worker serves lane {lane} (settings lanes and serve)")]
    if any(lane not in worker.paused_lanes for worker in serving):
        return []
    sentences = dict.fromkeys(reason.sentence for worker in serving for reason in worker.pressure)
    return [Cause("lane_paused", f"lane {lane} is paused: {'; '.join(sentences)}")]


def _browser(facts: Facts) -> list[Cause]:
    url = facts.where.task.url if facts.where.task is not None else facts.url
    said = facts.host.in_browser.get(pattern_of(url)) if facts.host is not None else None
    return [Cause("needs_browser", said)] if said is not None else []


def _turn(facts: Facts, *, first: bool) -> list[Cause]:
    where, host = facts.where, facts.host
    waiting = "waiting for its host's turn" if first else "then it waits for its host's turn"
    if where.task is None:
        far = f"somewhere behind the first {count(where.ahead)} URLs of its host's queue"
        return [Cause("turn", f"{waiting}: {far}")]
    pace = host.pace if host is not None and host.held is None else None
    after = plural(where.ahead, "URL") + " before it"
    if pace:
        after += f" at {_pace(pace)}"
        after += f", about {span(where.ahead / pace)}" if where.ahead else ""
    found = [Cause("turn", f"{waiting}: {after}")]
    if facts.elsewhere:
        shared = f"its host also serves {plural(facts.elsewhere, 'URL')} of other lanes or jobs"
        found.append(Cause("shared_host", shared))
    return found


def _pace(per_second: float) -> str:
    return f"{speed(per_second)} requests a second" if per_second >= 0.1 else f"one in {span(1 / per_second)}"


def _pressure(facts: Facts) -> list[Cause]:
    """Rules that slow all lanes. What pauses this one has been told."""
    told = {reason.rule: reason for worker in _statuses(facts) for reason in worker.pressure}
    paused = {cause.name for cause in _lane(facts)} & {"lane_paused"}
    return [] if paused else [Cause(f"pressure_{rule}", told[rule].sentence) for rule in told]


def _statuses(facts: Facts) -> list[WorkerStatus]:
    statuses = [status_of(record) for record in facts.workers]
    return [status for status in statuses if status.serves(facts.job.spec.name)]


def _most(facts: Facts, task: Task) -> int:
    return task.max_attempts or facts.job.spec.max_attempts


def _task(facts: Facts) -> Task:
    assert facts.where.task is not None
    return facts.where.task


# -- gathering the facts


async def answers_about(frontier: Frontier, typed: str, job: str | None) -> list[Answer]:
    """One answer for each job that knows the URL; if none does, one for the job that might."""
    jobs = await chosen_jobs(frontier, job)
    pruned = len(await frontier.past_jobs()) if job is None else 0
    gone = f"{plural(pruned, 'job')} pruned, and with {'it' if pruned == 1 else 'them'} what was seen"
    if not jobs and pruned:
        raise UsageError(f"no jobs in this store any more: {gone}; see {command('status')}")
    if not jobs:
        raise UsageError(f"no jobs in this store yet; start one with: {command('crawl URL')}")
    answers = [explain(await inquire(frontier, job, typed)) for job in jobs]
    known = [answer for answer in answers if answer.place != "unknown"]
    if known or not pruned:
        return known or answers[:1]
    cause = Cause("pruned", f"{gone}: whether one of those had it is not known any more")
    return [replace(answers[0], causes=(*answers[0].causes, cause))]


async def inquire(frontier: Frontier, job: Job, typed: str) -> Facts:
    """What is known about a URL in a job; `typed` must be one that can be crawled."""
    rules = rules_for(job)
    url = sent_url(typed, routes=rules.settings.hash_routes)
    assert url is not None, typed
    page = fingerprint(Canonicaliser(rules.settings.tracking_params)(url))
    task = Task(url, host=host_key(url), fingerprint=page)
    where = await frontier.find(job.spec.name, task)
    now_at = where.task or task
    record = await frontier.host(now_at.host)
    now = await frontier.now()
    host = None
    if record is not None:
        host = with_robots(await with_its_jobs(frontier, view_of(record, rules, now)), rules)
        host = with_sources(host, rules, (await read_stored_settings(frontier)).table)
        its_own = {name: known for name, known in host.origins.items() if name == scheme(now_at.url)}
        host = replace(host, origins=its_own, held=await held_at(frontier, record))
    queues = await frontier.host_queues(now_at.host)
    elsewhere = [q.pending for q in queues if (q.job, q.lane) != (job.spec.name, now_at.lane)]
    return Facts(
        url,
        now,
        job,
        where,
        host,
        host is None or _allows(host, now_at.url),
        await _refusal(frontier, job, rules.settings, url, where),
        sum(elsewhere),
        await frontier.workers(),
        rules.settings.robots_meta,
        rules.settings.robots_meta or rules.settings.rel_nofollow,
    )


def _allows(host: HostView, url: str) -> bool:
    robots, known = host.robots.get(scheme(url)), host.state.origin(scheme(url))
    if not host.asks_robots or robots is None or known.robots_missing:
        return True  # or not known
    return robots.allows(url)


async def _refusal(frontier: Hosts, job: Job, settings: Settings, url: str, where: Whereabouts) -> str | None:
    """Why a link to a URL never seen would not be admitted."""
    if where.place != "unknown":
        return None
    admission = Admission(settings)
    async for record in frontier.hosts(job.spec.name):
        if state_of(record).start:
            admission.welcome(record.name)
    answer = admission.admit(Request(url, depth=0), parent=Task(url))
    return answer.reason if isinstance(answer, Refused) else None

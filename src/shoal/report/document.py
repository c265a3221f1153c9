"""The page of a report: findings as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from string import Template

import msgspec

from shoal import __version__
from shoal.engine.history import HostPast, Slice
from shoal.events import Event
from shoal.frontier.values import Job
from shoal.inspect.freshness import is_standing, visited
from shoal.inspect.job import has_ended, left_over, remaining
from shoal.model import DeadLetter, counts
from shoal.policy.outcomes import rule_for
from shoal.report.gathering import Findings
from shoal.report.plots import nothing, plots, text, when
from shoal.text import humanize

GENERATOR = "Shoal report"  # by which a report is known
_RANKED = 8  # hosts or counters in a ranking
_HOSTS_LISTED = 100
_FEW = 5  # requests that a host must have had to be called slow or failing


def render(findings: Findings) -> str:
    job, total = findings.job, findings.history.total()
    made = Template(files("shoal.report").joinpath("template.html").read_text("utf-8"))
    return made.substitute(
        generator=GENERATOR,
        version=text(__version__),
        job=text(job.spec.name),
        state=text(job.state),
        about=_about(findings),
        figures=_figures(findings, total),
        plots=plots(findings.history, total),
        counted=_troubled(findings) + _counted(job),
        hosts=_hosts(findings.history.hosts),
        errors=_errors(total),
        letters=_letters(findings.letters, job.counters.dead),
        events=_events(findings.events),
        settings=_settings(findings),
        made=when(findings.now),
    )


# -- the head


def _about(findings: Findings) -> str:
    job = findings.job
    ended = f"{'ended' if job.finished_at else 'went on until'} {when(findings.ended_at)}"
    parts = [f"spider {text(job.spec.spider)}"] if job.spec.spider else []
    parts += [f"began {when(job.created_at)}", ended]
    parts += [f"rows in {text(findings.output)}"] if findings.output else []
    return " · ".join(parts)


def _figures(findings: Findings, total: Slice) -> str:
    c, seconds, attempts = findings.job.counters, findings.seconds, total.attempts
    busy = [point.rate for point in findings.history.points() if point.slice.pages]
    visits = visited(findings.job)
    tiles = [
        *_pages(findings),
        (humanize.count(c.items), _noun(c.items, "row"), _per_page(c.items, visits)),
        (humanize.percent(total.success), "success", f"of {humanize.plural(attempts, 'attempt')}"),
        (humanize.duration(seconds), "duration", _left(findings.job)),
        (f"{humanize.rate(visits / max(seconds, 1))}/s", "pages", f"at best {humanize.rate(max(busy, default=0))}/s"),
        (humanize.size(total.bytes), "received", f"in {humanize.plural(total.fetches, 'fetch', 'fetches')}"),
        (humanize.latency(total.percentile(50)), "latency p50", _slower(total)),
        (humanize.count(c.dead), "dead", f"{humanize.plural(c.retried, 'retry', 'retries')}"),
    ]  # fmt: skip
    if c.rejected:
        tiles.append((humanize.count(c.rejected), "rejected", _noun(c.rejected, "item") + " not written"))
    return "".join(
        f"<li><b>{text(value)}</b> <span>{text(name)}</span><small>{text(more)}</small></li>"
        for value, name, more in tiles
    )


def _pages(findings: Findings) -> list[tuple[str, str, str]]:
    """How many are done; of a standing job, how many are followed, and how fresh they are."""
    c, fresh = findings.job.counters, findings.freshness
    if fresh is None:
        return [(humanize.count(c.done), _noun(c.done, "page"), f"of {humanize.count(c.admitted)} admitted")]
    late = f"{humanize.count(fresh.overdue)} overdue" if fresh.overdue else "none overdue"
    oldest = fresh.oldest_due
    if oldest is not None and fresh.overdue:
        late += f", the oldest by {humanize.span(findings.now - oldest)}"
    return [
        (humanize.count(fresh.followed), _noun(fresh.followed, "page") + " followed", late),
        (humanize.percent(fresh.ratio), "fresh", "checked within their interval"),
        (
            humanize.count(fresh.visits.visits),
            _noun(fresh.visits.visits, "visit"),
            f"{humanize.count(fresh.visits.changed)} found a change",
        ),
    ]


def _left(job: Job) -> str:
    left = remaining(job)
    if is_standing(job) and not has_ended(job):
        return f"{humanize.count(left)} to visit" if left else "nothing is due"
    return left_over(job) or (f"{humanize.count(left)} left" if left else "nothing left")


def _per_page(rows: int, pages: int) -> str:
    return f"{humanize.about(rows / pages)} a page" if pages else "no pages"


def _noun(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _slower(total: Slice) -> str:
    return f"p95 {humanize.latency(total.percentile(95))}, p99 {humanize.latency(total.percentile(99))}"


def _troubled(findings: Findings) -> str:
    """Pages of a standing job that failed at their last visit."""
    if not findings.troubled:
        return ""
    rows = "".join(
        f'<li><span class="url">{text(page.url)}</span>'
        f"<code>{'gone' if page.gone else 'held back' if page.held else 'missed'}</code>"
        f"<span>{text(page.trouble)}</span><small>next visit {when(page.due)}</small></li>"
        for page in findings.troubled
    )
    return f'<h2>Pages that failed at their last visit</h2><ol class="card letters">{rows}</ol>'


def _counted(job: Job) -> str:
    if not job.counts:
        return ""
    own, dropped = counts.own(job.counts), counts.dropped(job.counts)
    costs = counts.costs_in_words(job.counts, visited(job))
    rankings = [_ranking("By its spider", "pages", own, _whole)] if own else []
    rankings += [_ranking("Dropped", "dead", dropped, _whole)] if dropped else []
    shown = f'<h2>Counted</h2><div class="cards">{"".join(rankings)}</div>' if rankings else ""
    return shown + (f"<h2>Cost</h2><p>{text(costs)}</p>" if costs else "")


# -- hosts


def _hosts(hosts: dict[str, HostPast]) -> str:
    if not hosts:
        return nothing("Nothing is known of its hosts.")
    seasoned = {name: past for name, past in hosts.items() if past.requests >= _FEW} or hosts
    rankings = [
        _ranking("Busiest", "pages", {name: past.pages for name, past in hosts.items()}, _whole),
        _ranking("Slowest", "p95", {name: past.latency for name, past in seasoned.items()}, humanize.latency),
        _ranking("Most failing", "dead", {name: past.failures for name, past in hosts.items()}, _whole),
    ]
    return f'<div class="cards">{"".join(rankings)}</div>{_hosts_table(hosts)}'


def _ranking(title: str, style: str, values: Mapping[str, float], shown: Callable[[float], str]) -> str:
    ranked = sorted((-value, name) for name, value in values.items() if value)
    rows = "".join(
        f'<li><span class="name">{text(name)}</span><b>{text(shown(-value))}</b>'
        f"{_bar(value / ranked[0][0], style)}</li>"
        for value, name in ranked[:_RANKED]
    )
    body = f'<ol class="ranking">{rows}</ol>' if rows else nothing("There were none.")
    return f'<section class="card"><h3>{title}</h3>{body}</section>'


def _whole(number: float) -> str:
    return humanize.count(int(number))


def _bar(share: float, style: str) -> str:
    return f'<i class="bar {style}" style="width:{max(share, 0.004):.1%}"></i>'


def _hosts_table(hosts: dict[str, HostPast]) -> str:
    ranked = sorted(hosts.items(), key=lambda item: (-item[1].requests, item[0]))[:_HOSTS_LISTED]
    rows = "".join(
        f'<tr><td class="name">{text(name)}</td><td>{humanize.count(past.pages)}</td>'
        f"<td>{humanize.count(past.failures)}</td><td>{humanize.percent(past.handled / max(past.requests, 1))}</td>"
        f"<td>{humanize.latency(past.latency)}</td><td>{text(past.last_error or '-')}</td></tr>"
        for name, past in ranked
    )
    title = "All hosts" if len(ranked) == len(hosts) else f"The {len(ranked)} busiest hosts"
    return (
        f'<details class="card"><summary>{title}</summary><div class="scroll"><table><thead><tr><th>host</th>'
        "<th>pages</th><th>failures</th><th>success</th><th>mean latency</th><th>last error</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )


# -- what went wrong


def _errors(total: Slice) -> str:
    if not total.errors:
        return nothing("No attempt failed.")
    ranked = sorted(total.errors.items(), key=lambda item: (-item[1], item[0]))
    rows = "".join(
        f"<li><code>{text(kind)}</code><b>{humanize.count(number)}</b><span>{text(_fate(kind))}</span>"
        f"{_bar(number / ranked[0][1], f's{min(place, 7)}')}</li>"
        for place, (kind, number) in enumerate(ranked, 1)
    )
    return f'<ol class="card kinds">{rows}</ol>'


def _fate(kind: str) -> str:
    rule = rule_for(kind)
    return f"{rule.meaning}; {'tried again' if rule.action == 'retry' else 'given up'}"


def _letters(letters: Sequence[DeadLetter], dead: int) -> str:
    if not letters:
        return nothing("No page was given up.")
    rows = "".join(map(_letter, letters))
    more = (
        f'<p class="more">{humanize.count(len(letters))} of {humanize.count(dead)}, a few of every kind.</p>'
    )
    return f'<ol class="card letters">{rows}</ol>{more if dead > len(letters) else ""}'


def _letter(letter: DeadLetter) -> str:
    last = letter.task.history[-1] if letter.task.history else None
    detail = last.detail if last is not None and last.detail else rule_for(letter.kind).meaning
    tries = humanize.plural(max(1, len(letter.task.history)), "attempt")
    return (
        f'<li><span class="url">{text(letter.task.url)}</span><code>{text(letter.kind)}</code>'
        f"<span>{text(detail)}</span><small>{tries}, {when(letter.at)}</small></li>"
    )


def _events(events: Sequence[Event]) -> str:
    if not events:
        return nothing("Nothing out of the ordinary was noted.")
    rows = "".join(
        f'<li class="{event.level}"><small>{when(event.at)}</small>'
        f"<span>{text(event.message)}{_others(event)}</span></li>"
        for event in events
    )
    return f'<ol class="card events">{rows}</ol>'


def _others(event: Event) -> str:
    others = event.fields.get("others")
    return f" <small>and {text(others)} like it before</small>" if others else ""


def _settings(findings: Findings) -> str:
    if findings.settings is None:
        return nothing("Its settings are not known.")
    if not findings.settings:
        return nothing("All settings were at their defaults.")
    rows = "".join(
        f"<tr><td><code>{text(one.name)}</code></td><td><code>{text(_json(one.value))}</code></td>"
        f"<td><code>{text(_json(one.default))}</code></td></tr>"
        for one in findings.settings
    )
    return (
        '<div class="card scroll"><table class="words"><thead><tr><th>setting</th><th>value</th><th>default</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div>"
        '<p class="more">Settings that may hold secrets are never written down.</p>'
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

"""How fresh the pages of a standing job are: what is counted, and how it is told to people and programs."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from shoal.engine.history import History, Slice
from shoal.engine.tally import Tally, TallyReport, merge
from shoal.engine.visit_tally import NO_VISITS, VisitTally, visit_of
from shoal.frontier.following import Followed, Following
from shoal.frontier.memory import MemoryFrontier
from shoal.frontier.values import Counters, Job, JobSpec, JobState, Whereabouts
from shoal.inspect.freshness import (
    EDGES,
    Freshness,
    Visits,
    details_of,
    freshness_of,
    in_words,
    is_late,
    is_standing,
    results_in_words,
    said_of_visits,
    visited,
)
from shoal.inspect.freshness_form import freshness_dict, freshness_page
from shoal.inspect.held_back import Holdups
from shoal.inspect.job import View, left_over, remaining
from shoal.inspect.overview import JobView, Overview, look
from shoal.inspect.why import Facts, explain
from shoal.model import Done, Lease, Revisit, Settlement
from shoal.model.counts import CHANGED, GONE, MISSED, UNCHANGED, VISITS
from shoal.model.page_record import PageRecord
from shoal.policy.change_rate import changes_every
from shoal.policy.revisit import NO_PLAN, learned
from shoal.runtime.stalled_jobs import LONG, StalledJobs, say_why
from shoal.terminal import live_panel, status_view, summary
from shoal.terminal.progress_lines import line
from shoal.testing import ManualClock
from shoal.testing.conformance.tools import OPEN, claim, make_task, spec

NOW = 1_000_000.0
DAY = 86_400.0


def job(state: JobState = "running", counts: dict[str, int] | None = None, **counters: int) -> Job:
    return Job(JobSpec("news"), state, Counters(**counters), 0.0, fed_all=True, counts=counts or {})


def page(path: str, due: float, *, waits: bool = True, host: str = "a.test", **record: Any) -> Followed:
    known = PageRecord(**{"visits": 2, "checked_at": NOW - 3600, "interval": 3600.0, **record})
    return Followed(make_task(f"http://{host}/{path}", record=known), due, waits)


def learnt(changed: bool, waited: float) -> bytes:
    """What is known of a page's rate after eight such visits."""
    rate = b""
    for _ in range(8):
        rate = learned(rate, changed=changed, waited=waited, plan=NO_PLAN)
    return rate


def drawn(shown: Any, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(shown)
    return console.export_text()


# -- the read model


def test_pages_that_wait_are_on_time_until_they_are_due() -> None:
    following = Following(
        [
            page("later", NOW + 600),
            page("soon", NOW + 60),
            page("unclaimed", NOW - 5),
            page("in-hand", NOW - 30, waits=False),
        ],
        next_due=NOW - 5,
    )
    found = freshness_of(job(delayed=3, waiting=3, leased=1, pending=7, admitted=11), following, NOW)
    assert (found.followed, found.on_time, found.overdue, found.new) == (4, 2, 2, 7)
    assert found.ratio == 0.5
    assert (found.next_due, found.oldest_due, found.about) == (NOW + 60, NOW - 30, False)
    said = "following 4 pages; 2 on time, 2 overdue, the oldest by 30 s; next visit in 60 s"
    assert in_words(found, NOW) == said


def test_a_sample_stands_for_all_pages_that_wait() -> None:
    pages = [page(str(n), NOW + 100 * n) for n in range(-9, 91)]
    pages.append(page("in-hand", NOW - 1, waits=False, missed=1))
    seen = job(delayed=50_000, waiting=50_000, leased=1)
    found = freshness_of(seen, Following(pages, NOW - 900, whole=False), NOW)
    assert (found.followed, found.overdue) == (50_001, 5_001), "ten of a hundred were due"
    assert in_words(found, NOW).startswith("following 50,001 pages; about 45,000 on time, 5,001 overdue")
    details = details_of(seen, Following(pages, NOW - 900, whole=False), NOW)
    assert sum(details.due) == pytest.approx(50_001, abs=10)
    assert details.due[0] == 5_001


def test_a_job_is_standing_from_its_first_visit_on() -> None:
    assert not is_standing(job(pending=5, delayed=2, done=9))
    assert is_standing(job(waiting=1, delayed=1))
    assert is_standing(job(counts={VISITS: 1}, pending=1)), "all its pages are due"
    assert visited(job(done=2, counts={VISITS: 40})) == 42


def test_nothing_that_waits_for_its_visit_is_left_to_do() -> None:
    seen = job(pending=3, leased=1, delayed=12, waiting=10, admitted=16)
    assert remaining(seen) == 6
    assert JobView(seen).progress == 10 / 16
    assert left_over(seen) == ""
    ended = job("cancelled", delayed=10, waiting=10, pending=2)
    assert left_over(ended) == "10 pages not visited any more, 2 not fetched: it was cancelled"


def test_next_visits_are_a_histogram() -> None:
    dues = [-5.0, 30.0, 60.0, 61.0, 2 * DAY, 400 * DAY]
    found = details_of(job(waiting=6, delayed=6), Following([page(str(due), NOW + due) for due in dues]), NOW)
    assert len(found.due) == len(EDGES) + 2
    assert (found.due[0], found.due[1], found.due[2], found.due[-1]) == (1, 2, 1, 1)
    assert sum(found.due) == 6


def test_pages_are_told_by_what_is_the_matter_with_them() -> None:
    following = Following(
        [
            page("fixed", NOW + 60, changed_at=NOW - 3600),
            page("slow", NOW + DAY, rate=learnt(True, DAY)),
            page("fast", NOW + 60, rate=learnt(True, 600.0)),
            page("calm", NOW + 60, rate=learnt(False, 600.0)),
            page("late", NOW - 600, waits=False, host="b.test"),
            page("later", NOW - 60, host="b.test"),
            page("broken", NOW + 60, missed=3, trouble="http_500: the server failed"),
            page("away", NOW + 60, gone=1, missed=1, trouble="http_404"),
            page("bare", NOW + 60, held=1, trouble="no price"),
        ]
    )
    found = details_of(job(waiting=8, delayed=8, leased=1), following, NOW)
    assert [one.url[14:] for one in found.restless] == ["fast", "slow", "fixed"]
    assert [one.url[14:] for one in found.overdue] == ["late", "later"]
    assert [(one.url[14:], one.trouble) for one in found.troubled] == [
        ("broken", "http_500: the server failed"),
        ("away", "http_404"),
        ("bare", "no price"),
    ]
    assert [(one.host, one.followed, one.overdue) for one in found.hosts] == [
        ("b.test", 2, 2),
        ("a.test", 7, 0),
    ]
    assert found.hosts[0].oldest_due == NOW - 600
    seen = freshness_of(job(waiting=8, delayed=8, leased=1), following, NOW)
    assert (seen.failing, seen.held) == (2, 1)
    assert "; 2 pages failed at the last visit; 1 page is held back, shoal quality tells why" in in_words(
        seen, NOW
    )


def test_a_person_is_warned_when_more_than_a_few_pages_are_late() -> None:
    assert not is_late(Freshness(1000, 10, oldest_due=NOW - 3600), NOW), "one in a hundred"
    assert not is_late(Freshness(1000, 500, oldest_due=NOW - 20), NOW), "just now"
    assert is_late(Freshness(1000, 11, oldest_due=NOW - 3600), NOW)
    assert not is_late(Freshness(0, 0), NOW)


def test_what_visits_have_shown_in_words() -> None:
    assert results_in_words(Visits()) == ""
    said = "70,010 visits: 5,000 first · 61,200 unchanged · 3,800 changed · 90 missed · 10 held back"
    assert results_in_words(Visits(70_010, 61_200, 3_800, 0, 90, 10)) == said


# -- counted, and over time


def a_visit(before: PageRecord | None, checked_at: float, *names: str) -> Settlement:
    lease = Lease(1, make_task("http://a.test/", record=before), 0.0, host_version=0)
    record = PageRecord(visits=2, checked_at=checked_at, interval=60.0)
    return Settlement(lease, Revisit(60.0, record), counts=tuple((name, 1) for name in names))


def test_a_visit_is_late_by_the_time_since_it_was_due() -> None:
    before = PageRecord(visits=1, checked_at=100.0, interval=60.0)
    assert visit_of(a_visit(before, 190.0, VISITS, UNCHANGED)) == VisitTally(1, 1, waited=90.0, late=30.0)
    assert visit_of(a_visit(before, 150.0, VISITS, CHANGED)) == VisitTally(1, changed=1, waited=50.0)
    assert visit_of(a_visit(None, 150.0, VISITS)) == VisitTally(1), "the first one waited for nothing"
    assert visit_of(a_visit(PageRecord(), 150.0, VISITS)) == VisitTally(1), (
        "found on a later visit of another"
    )
    assert visit_of(a_visit(before, 190.0, MISSED)) == VisitTally(missed=1)
    done = Settlement(a_visit(before, 0.0).lease, Done(), counts=((GONE, 1), ("variants", 3)))
    assert visit_of(done) == VisitTally(gone=1)
    assert visit_of(Settlement(done.lease, Done(), counts=(("variants", 3),))) is None


def test_visits_are_added_up_over_processes_and_time() -> None:
    tally = Tally()
    tally.visited(VisitTally(1, 1, waited=90.0, late=30.0))
    tally.visited(VisitTally(1, changed=1, waited=10.0))
    report = tally.report()
    assert report.visits == VisitTally(2, 1, 1, waited=100.0, late=30.0)
    assert report.visits.freshness == 0.7
    assert merge([report, report, TallyReport()]).visits.visits == 4
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=TallyReport) == report
    assert report.visits - VisitTally(1, 1) == VisitTally(1, 0, 1, waited=100.0, late=30.0)
    history = History().added(10.0, Slice(pages=1, visits=report.visits)).added(11.0, Slice(pages=1))
    assert history.total() == Slice(pages=2, visits=report.visits)
    assert NO_VISITS.freshness is None


def test_a_slice_of_an_older_version_has_no_visits() -> None:
    old = msgspec.msgpack.encode([3, 4, 0, 0, 99, {}, [], 0])
    assert msgspec.msgpack.decode(old, type=Slice) == Slice(3, 4, 0, 0, 99)


# -- how it is shown


FRESH = Freshness(5000, 20, NOW + 720, NOW - 3 * 3600, new=0, visits=Visits(70_000, 61_200, 3_800))


def a_view(freshness: Freshness | None = FRESH, **counters: int) -> View:
    counted = {"admitted": 5000, "delayed": 4983, "waiting": 4980, "pending": 17, "items": 9000, **counters}
    seen = job(counts={VISITS: 70_000, UNCHANGED: 61_200, CHANGED: 3_800, "variants": 7}, **counted)
    return View(seen, TallyReport(in_flight=3), 60.0, 2.5, 8.0, freshness=freshness, now=NOW)


def test_the_panel_of_a_standing_job_has_no_eta_and_no_pages_done() -> None:
    text = drawn(live_panel.render(a_view()))
    assert "4,980 of 5,000 pages fresh" in text
    assert "caught up in 8.0 s" in text
    assert "4,980 waiting" in text
    assert "3 delayed" in text, "those that wait for a retry"
    assert "4,980 on time, 20 overdue, the oldest by 3 h; next visit in 12 min" in " ".join(text.split())
    assert "70,000 visits: 5,000 first · 61,200 unchanged · 3,800 changed" in text
    assert "ETA" not in text
    assert "variants 7" in text
    assert "visits 70,000" not in text, "they are no counters of the spider"


def test_a_standing_job_with_nothing_due_is_at_rest() -> None:
    rests = Freshness(5000, 0, NOW + 720)
    text = drawn(live_panel.render(a_view(rests, delayed=5000, waiting=5000, pending=0)))
    assert "5,000 of 5,000 pages fresh" in text
    assert "following 5,000 pages; all on time; next visit in 12 min" in text
    assert "caught up" not in text
    assert "0 delayed" in text


def test_a_line_of_progress_and_the_summary_of_a_standing_job() -> None:
    said = line(a_view())
    assert said.startswith("news: following 5,000 pages; 4,980 on time, 20 overdue")
    assert "3 delayed" in said
    assert "caught up in 8.0 s" in said
    assert "ETA" not in said
    text = drawn(summary.render(a_view(), output="rows.jsonl"))
    assert "5,000 pages; 4,980 on time" in text
    assert "20 still to visit" in text
    found = summary.as_json(a_view(), output="rows.jsonl")
    assert found["waiting"] == 4980
    assert found["freshness"] == freshness_dict(FRESH, NOW)
    assert summary.as_json(a_view(None), output="x")["freshness"] is None


def frame_of(*jobs: JobView) -> status_view.Frame:
    return status_view.Frame("store.db", Overview(NOW, jobs, (), (), None), Holdups())


def test_status_shows_how_fresh_a_standing_job_is() -> None:
    ends = JobView(replace_name(job(done=5, pending=5, admitted=10), "books"), eta=60.0)
    stands = JobView(a_view().job, freshness=FRESH)
    text = drawn(status_view.render(frame_of(stands, ends), 120))
    assert "ETA / next visit" in text
    news = next(line for line in text.splitlines() if line.startswith("news "))
    assert "5,000/5,000" in news
    assert "99.6 %" in news
    assert "12 min" in news
    assert "news: following 5,000 pages" in text
    assert "4,980 waiting" in text
    assert "3 delayed" in text
    alone = drawn(status_view.render(frame_of(ends), 120))
    assert "next visit" not in alone
    assert "fresh" not in alone


def replace_name(known: Job, name: str) -> Job:
    return msgspec.structs.replace(known, spec=JobSpec(name))


def test_the_card_of_a_standing_job() -> None:
    text = drawn(live_panel.job_card(a_view().job, "", [], FRESH, NOW))
    assert "4,980 of 5,000 pages fresh" in text
    assert "4,980 waiting" in text
    assert "next visit in 12 min" in text


# -- from a store


async def standing(frontier: MemoryFrontier, waits: dict[str, float]) -> None:
    await frontier.open_job(spec("news", OPEN))
    await frontier.add("news", [make_task(f"http://a.test/{name}") for name in waits])
    now = await frontier.now()
    leases = (await claim(frontier, jobs=["news"])).leases
    for lease in leases:
        after = waits[lease.task.url.rpartition("/")[2]]
        record = PageRecord(visits=1, checked_at=now, changed_at=now, interval=after)
        await frontier.settle([Settlement(lease, Revisit(after, record), counts=((VISITS, 1),))])


async def test_one_look_at_a_store_tells_how_fresh_its_jobs_are() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await standing(frontier, {"soon": 60.0, "later": 3600.0})
    seen = await look(frontier)
    [one] = seen.jobs
    assert one.freshness is not None
    assert (one.freshness.followed, one.freshness.overdue, one.eta) == (2, 0, None)
    assert (seen.delayed, seen.waiting) == (2, 2)
    found = await freshness_page(frontier, [one.job], None)
    assert (found["job"], found["jobs"]) == ("news", ["news"])
    assert found["freshness"]["ratio"] == 1.0
    assert (await freshness_page(frontier, [one.job], "nobody"))["job"] is None
    assert (await freshness_page(frontier, [], None))["jobs"] == []


async def test_a_job_with_nothing_due_is_not_stuck() -> None:
    clock = ManualClock()
    frontier = MemoryFrontier(clock)
    await standing(frontier, {"soon": 500.0, "later": 3600.0})
    stalled = StalledJobs()
    assert stalled.look(await frontier.jobs(), 0.0) == []
    clock.advance(LONG + 1)
    [(stuck, waited)] = stalled.look(await frontier.jobs(), LONG + 1)
    assert await say_why(frontier, stuck, waited, []) == ""
    clock.advance(600)
    assert "no worker" in await say_why(frontier, stuck, 600.0, []), "one is due, and nobody takes it"


# -- why


def facts(place: str, record: PageRecord, **where: Any) -> Facts:
    task = make_task("http://a.test/", record=record, attempt=1)
    return Facts("http://a.test/", NOW, job(), Whereabouts(place, task, **where))  # type: ignore[arg-type]


def sentences(found: Facts) -> list[str]:
    return [cause.sentence for cause in explain(found).causes]


def test_why_tells_how_often_a_page_was_visited() -> None:
    record = PageRecord(14, NOW - 3600, NOW - 3600, NOW - 3 * DAY, 4 * 3600.0)
    first, *_ = sentences(facts("delayed", record, due=NOW + 3 * 3600))
    assert first == "visited 14 times, unchanged for 3 d; next visit in 3 h"
    first, *_ = sentences(facts("delayed", record, due=NOW - 600))
    assert first == "visited 14 times, unchanged for 3 d; its next visit has been due for 10 min"
    changed = PageRecord(2, NOW - 3600, NOW - 3600, NOW - 3600, 4 * 3600.0)
    assert said_of_visits(changed, NOW) == "visited twice, changed at its last visit, 60 min ago"
    assert said_of_visits(PageRecord(1, NOW - 30, NOW - 30, NOW - 30), NOW) == "visited once, 30 s ago"


def test_how_often_a_page_changes_is_told_once_a_change_was_found() -> None:
    every = changes_every(learnt(True, DAY))
    assert every == pytest.approx(DAY, rel=0.01), "it had changed each time: more often was not seen"
    seldom = b""
    for turn in range(40):
        seldom = learned(seldom, changed=turn % 10 == 9, waited=DAY, plan=NO_PLAN)
    found = changes_every(seldom)
    assert found is not None
    assert 6 * DAY < found < 16 * DAY, "one in ten visits found a change"
    assert changes_every(learnt(False, DAY)) is None
    assert changes_every(b"") is None
    assert changes_every(b"nonsense") is None
    record = PageRecord(9, NOW - 3600, NOW - 3600, NOW - 3 * DAY, DAY, rate=learnt(True, 6 * DAY))
    said = said_of_visits(record, NOW)
    assert said.startswith("visited 9 times, changes about every ")
    assert said.endswith(" d, unchanged for 3 d")


def test_why_tells_what_the_last_visits_came_to() -> None:
    record = PageRecord(
        14, NOW - DAY, NOW - DAY, NOW - 3 * DAY, DAY + 60, missed=3, trouble="timeout: no answer"
    )
    found = sentences(facts("delayed", record, due=NOW + 60))
    assert found[1] == "its last 3 visits came to nothing: timeout: no answer"


def test_why_tells_of_a_visit_that_is_due() -> None:
    record = PageRecord(14, NOW - 2 * 3600, NOW - 2 * 3600, NOW - 3 * DAY, 3600.0)
    found = sentences(facts("pending", record))
    assert found[0].startswith("not visited again yet: ")
    assert "visited 14 times, unchanged for 3 d; its next visit has been due for 60 min" in found
    fresh = sentences(facts("pending", PageRecord()))
    assert fresh[0].startswith("not fetched yet: ")

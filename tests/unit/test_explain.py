"""Facts about one URL, and the sentences they become."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shoal.fetch.robots_fetch import RobotsRecord
from shoal.frontier.values import Counters, HostRecord, Job, JobSpec, Whereabouts, WorkerRecord
from shoal.hosts.host_limits import HostRules
from shoal.hosts.host_state import Ask, HostState, Manual, OriginState, encode_state
from shoal.inspect.host import HostView, view_of, with_robots
from shoal.inspect.why import Answer, Facts, explain
from shoal.jobs.worker_status import WorkerStatus, encode_status
from shoal.model import Failure, Task
from shoal.policy.backpressure import Reason
from shoal.policy.breaker import BreakerState
from shoal.policy.compose import state_name
from shoal.policy.escalation import Pattern
from shoal.policy.rate import RateState
from shoal.policy.timeout import TimeoutState
from shoal.settings import Settings
from shoal.valve import FOREVER, Domain, Valve

NOW = 1_000_000.0
URL = "http://shop.test/item"
TASK = Task(URL, id=17, host="shop.test", lane="discovery", attempt=2)
JOB = Job(JobSpec("books"), "running", Counters(), NOW - 100, fed=3, fed_all=True)
RULES = HostRules(Settings())
ASKED = RobotsRecord("allow", NOW, NOW + 3600, reason="HTTP 404")


BREAKER = state_name("breaker", "http")
VALVE = Valve(interval=0.5, cap=2)


def host(valve: Valve = VALVE, *, policies: dict[str, Any] | None = None, **state: Any) -> HostView:
    states = {**RULES.policies.initial(), **(policies or {})}
    origin = OriginState(state.pop("robots", ASKED))
    stored = HostState(origins={"http": origin}, policies=RULES.policies.encode(states), **state)
    record = HostRecord("shop.test", valve, encode_state(stored))
    return with_robots(view_of(record, RULES, NOW), RULES)


def worker(name: str = "w1", **status: Any) -> WorkerRecord:
    given = WorkerStatus(**{"pid": 4711, "job": "books", "lanes": ("normal", "discovery"), **status})
    return WorkerRecord(name, NOW - 1, NOW + 59, encode_status(given))


def facts(where: Whereabouts, **others: Any) -> Facts:
    given = {"job": JOB, "host": host(), "workers": [worker()], **others}
    return Facts(URL, NOW, where=where, **given)


def pending(**others: Any) -> Answer:
    return explain(facts(Whereabouts("pending", TASK, ahead=1203), **others))


def sentences(answer: Answer) -> list[str]:
    return [cause.sentence for cause in answer.causes]


# -- pending


def test_a_url_that_only_waits_tells_how_long() -> None:
    assert sentences(pending()) == [
        "not fetched yet: waiting for its host's turn: 1,203 URLs before it at 2 requests a second, about 10 min"
    ]


def test_the_pace_of_a_slow_host_is_that_of_its_answers() -> None:
    slow = host(Valve(interval=0.1, cap=2), policies={"timeout": TimeoutState(latency=4.0)})
    assert "at 0.5 requests a second, about 40 min" in pending(host=slow).causes[0].sentence


def test_a_url_too_far_back_to_be_found() -> None:
    answer = explain(facts(Whereabouts("pending", ahead=200_000)))
    assert "somewhere behind the first 200,000 URLs" in answer.causes[0].sentence


def test_that_pages_like_it_need_a_browser_is_told() -> None:
    app = host(patterns={"/item": Pattern(shells=12.0, at=NOW, browser=True)})
    said = "/item goes to the browser lane: 12 of 12 plain answers were empty shells"
    assert sentences(pending(host=app))[-1] == said
    assert sentences(explain(facts(Whereabouts("unknown"), host=app)))[-1] == said
    moved = replace(TASK, lane="browser", history=(Failure("needs_browser", said),))
    told = sentences(explain(facts(Whereabouts("delayed", moved, due=NOW), host=app)))
    assert [said in each for each in told] == [True] + [False] * (len(told) - 1)
    other = host(patterns={"/app/*": Pattern(shells=12.0, at=NOW, browser=True)})
    assert not any("browser" in each for each in sentences(pending(host=other)))


def test_what_pages_ask_of_robots_may_be_the_reason() -> None:
    found = explain(facts(Whereabouts("done"), obeys_noindex=True))
    assert sentences(found)[1] == f"no items if it asks for noindex (robots_meta): shoal fetch {URL}"
    missing = explain(facts(Whereabouts("unknown"), obeys_nofollow=True))
    assert "ask for nofollow" in sentences(missing)[1]
    assert not any("robots_meta" in each for each in sentences(explain(facts(Whereabouts("done")))))


def test_an_attempt_that_was_given_back_is_none() -> None:
    died = replace(TASK, history=(Failure("needs_browser"), Failure("http_404", attempt=1)))
    answer = explain(facts(Whereabouts("dead", died, since=NOW - 10)))
    assert "after 1 attempt," in answer.causes[0].sentence


def test_a_domain_that_has_reached_its_limit_is_told() -> None:
    def told(domain: Domain | None, valve: Valve = VALVE) -> str:
        record = HostRecord(
            "shop.test", valve, encode_state(HostState(origins={"http": OriginState(ASKED)})), domain=domain
        )
        return pending(host=with_robots(view_of(record, RULES, NOW), RULES)).causes[0].sentence

    full = told(Domain("test.example", in_flight=8))
    assert (
        "domain test.example has reached its limit: 8 requests to its hosts are in flight (per_domain)"
        in full
    )
    paced = told(Domain("test.example", in_flight=7, next_at=NOW + 0.05))
    assert "domain test.example has reached its limit: its hosts share 10 req/s (domain_rate)" in paced
    for domain in (None, Domain("test.example", in_flight=7, next_at=NOW - 0.05)):
        assert "waiting for its host's turn" in told(domain)
    assert "waiting for" in told(Domain("test.example", next_at=NOW + 1), replace(VALVE, interval=0.0))


def test_other_queues_of_the_host_are_told() -> None:
    assert sentences(pending(elsewhere=7))[1] == "its host also serves 7 URLs of other lanes or jobs"


def test_a_host_that_cools_down_comes_first() -> None:
    state = BreakerState("open", NOW + 41, reason="5 failures in a row, the last: http_503")
    first, then = sentences(pending(host=host(policies={BREAKER: state})))
    assert first.startswith(
        "not fetched yet: host shop.test is cooling down: 5 failures in a row, the last: http_503, next probe in 41 s"
    )
    assert then.startswith("then it waits for its host's turn")


def test_a_host_that_is_probed() -> None:
    state = BreakerState("open", NOW - 1, reason="5 failures in a row, the last: http_503")
    answer = pending(host=host(policies={BREAKER: state}))
    assert answer.causes[0].name == "slowed_by_breaker"
    assert "probing, one request at a time" in answer.causes[0].sentence


def test_a_host_that_was_given_up() -> None:
    state = BreakerState("given_up", NOW + 600, reason="5 failures in a row")
    first = pending(host=host(policies={BREAKER: state})).causes[0]
    assert first.name == "given_up"
    assert "shoal hosts unblock shop.test" in first.sentence


def test_a_host_that_asked_for_rest() -> None:
    state = RateState(pace=1.0, began=2.0, blocked_until=NOW + 12, complaints=2, status="429")
    first = pending(host=host(policies={"rate": state})).causes[0].sentence
    assert "is blocked for another 12 s (answered 429 2 times" in first


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (NOW + 600, "is blocked by hand for another 10 min (the owner called)"),
        (FOREVER, "until it is unblocked"),
    ],
)
def test_a_person_s_block_comes_before_the_breaker(until: float, words: str) -> None:
    blocked = host(
        manual=Manual(blocked_until=until, reason="the owner called"),
        policies={BREAKER: BreakerState("open", NOW + 41)},
    )
    first, second, *_ = pending(host=blocked).causes
    assert (first.name, second.name) == ("blocked_by_hand", "blocked_by_breaker")
    assert words in first.sentence


def test_robots_txt() -> None:
    assert pending(allowed=False).causes[0].name == "robots"
    gone = RobotsRecord("disallow", NOW, NOW + 30, reason="HTTP 503")
    assert "cannot be fetched (HTTP 503)" in pending(host=host(robots=gone)).causes[0].sentence
    assert "asked for again in 30 s" in pending(host=host(robots=gone)).causes[0].sentence
    assert pending(host=host(robots=None)).causes[0].name == "robots_first"
    slow = RobotsRecord("rules", NOW, NOW + 30, agent="shoal", delay=7)
    assert "asks for 7 s between requests" in sentences(pending(host=host(robots=slow)))[0]


def test_no_worker_of_the_job() -> None:
    assert "no worker is running for job books" in pending(workers=[]).causes[0].sentence
    assert pending(workers=[worker(job="films")]).causes[0].name == "no_worker"


@pytest.mark.parametrize("state", ["paused", "cancelled", "finished"])
def test_a_job_that_does_not_run(state: str) -> None:
    answer = pending(job=replace(JOB, state=state), workers=[])
    assert sentences(answer)[0] == f"not fetched yet: job books is {state}"
    assert "no_worker" not in [cause.name for cause in answer.causes]


def test_a_page_budget_that_is_used_up() -> None:
    job = replace(JOB, spec=JobSpec("books", max_pages=50), counters=Counters(done=50), state="finished")
    assert sentences(pending(job=job))[0] == "not fetched yet: job books has its 50 pages (max_pages)"


def test_a_paused_lane_and_why() -> None:
    full = Reason("queue_full", "queue holds 20,400 URLs (high water 20,000): discovery and feeding paused")
    held = worker(paused_lanes=frozenset({"discovery"}), pressure=(full,))
    first, *rest = sentences(pending(workers=[held, held]))
    assert first == f"not fetched yet: lane discovery is paused: {full.sentence}"
    assert full.sentence not in rest
    # One worker that still takes from it is enough.
    assert pending(workers=[held, worker("w2")]).causes[0].name == "turn"


def test_a_lane_that_nobody_serves() -> None:
    assert "no worker serves lane discovery" in sentences(pending(workers=[worker(lanes=("normal",))]))[0]


def test_what_slows_all_lanes_comes_last() -> None:
    late = Reason("sink", "finished pages wait 2.0 s to be stored: 70% of the slots in use")
    assert sentences(pending(workers=[worker(pressure=(late,)), worker("w2", pressure=(late,))]))[1:] == [
        late.sentence
    ]


# -- elsewhere


def test_a_retry_tells_when_and_why() -> None:
    task = replace(TASK, history=(Failure("http_503", "HTTP 503"),))
    answer = explain(facts(Whereabouts("delayed", task, due=NOW + 12)))
    assert sentences(answer) == ["retry in 12 s: attempt 2 of 5 failed with http_503 (HTTP 503)"]
    blocked = host(policies={BREAKER: BreakerState("open", NOW + 41)})
    answer = explain(facts(Whereabouts("delayed", task, due=NOW - 1), host=blocked))
    assert sentences(answer)[0].startswith("retry is due: attempt 2")
    assert answer.causes[1].name == "blocked_by_breaker"


def test_a_page_in_flight() -> None:
    where = Whereabouts("leased", TASK, worker="w1", since=NOW - 3, deadline=NOW + 57)
    assert sentences(explain(facts(where))) == ["in flight at worker 4711 for 3 s (attempt 2 of 5)"]


def test_a_page_whose_worker_has_gone() -> None:
    where = Whereabouts("leased", TASK, worker="gone", since=NOW - 20, deadline=NOW + 40)
    answer = explain(facts(where, workers=[]))
    assert [cause.name for cause in answer.causes] == ["worker_gone", "no_worker"]
    assert "in 40 s at the latest" in answer.causes[0].sentence


def test_a_dead_page_names_its_letter() -> None:
    task = replace(TASK, history=(Failure("timeout"), Failure("http_404", "HTTP 404: not found")))
    first, hint = sentences(explain(facts(Whereabouts("dead", task, since=NOW - 7200))))
    assert first == "dead: http_404 after 2 attempts, 2 h ago: HTTP 404: not found"
    assert "shoal dead show 17" in hint


def test_a_page_that_is_done() -> None:
    answer = explain(facts(Whereabouts("done")))
    assert (answer.place, len(answer.causes)) == ("done", 1)


def test_a_redirected_page_tells_where_it_is() -> None:
    task = replace(TASK, url="http://shop.test/new", hops=(URL,))
    assert sentences(explain(facts(Whereabouts("pending", task))))[-1] == (
        "it redirected: its task is now at http://shop.test/new"
    )


# -- never seen


def test_a_url_never_seen() -> None:
    unknown = Whereabouts("unknown")
    assert sentences(explain(facts(unknown, host=None))) == ["never seen: no page has led to it so far"]
    unfed = explain(facts(unknown, job=replace(JOB, fed_all=False)))
    assert "3 start URLs read so far" in sentences(unfed)[1]
    limited = explain(facts(unknown, job=replace(JOB, spec=JobSpec("books", max_pages_per_host=9))))
    assert "had its 9 pages (max_pages_per_host)" in sentences(limited)[1]
    over = explain(facts(unknown, job=replace(JOB, state="finished"), allowed=False))
    assert sentences(over)[1:] == ["robots.txt forbids it", "job books is finished"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("host", "would be refused (scope: host: its host is outside"),
        ("trap: longer than 2000", "(trap: longer"),
    ],
)
def test_a_url_that_would_be_refused(reason: str, words: str) -> None:
    (only,) = sentences(explain(facts(Whereabouts("unknown"), refusal=reason)))
    assert only.startswith("never seen")
    assert words in only


def test_a_stricter_job_on_the_same_host_is_named() -> None:
    asks = {"books": Ask(0.5, 2, NOW), "gentle": Ask(5.0, 1, NOW)}
    slow = pending(host=host(Valve(interval=5.0, cap=1), asks=asks)).causes[0]
    assert slow.name == "slowed_by_job"
    assert "job gentle allows 0.2 req/s, and of 2 jobs" in slow.sentence
    alone = pending(host=host(Valve(interval=5.0, cap=1), asks={"books": Ask(5.0, 1, NOW)}))
    assert alone.causes[0].name == "turn"


def test_an_origin_that_fails_is_named_beside_one_that_does_not() -> None:
    dead = BreakerState("given_up", NOW + 600, reason="it has never answered: connect")
    alive = {BREAKER: BreakerState(spoke=True), state_name("breaker", "https"): dead}
    first = pending(host=host(policies=alive)).causes[0]
    assert first.sentence.startswith("not fetched yet: https://shop.test is given up: it has never answered")
    assert host(policies=alive).condition == "healthy", "the host is as well as its best origin"

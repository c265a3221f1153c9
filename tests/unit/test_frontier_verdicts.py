"""The rules that homes share: when an attempt is the last, what a redirect costs, and what a page budget permits."""

from __future__ import annotations

import pytest

from shoal.frontier.values import JobSpec
from shoal.frontier.verdicts import (
    budget_left,
    disposition,
    is_last_attempt,
    letter_of,
    marks,
    own_mark,
    redirected,
)
from shoal.model import Dead, Failure, Retry, Snapshot, Task

FAILED = Failure("timeout", "too slow", at=7.0, attempt=3)
SEEN = Snapshot(status=503)


def task(attempt: int, max_attempts: int | None = None, **more: object) -> Task:
    return Task("http://a.test/", id=9, job="job", attempt=attempt, max_attempts=max_attempts, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attempt", "own", "last"),
    [(2, None, False), (3, None, True), (4, None, True), (3, 5, False), (5, 5, True), (1, 1, True)],
)
def test_the_limit_of_a_task_goes_before_that_of_its_job(attempt: int, own: int | None, last: bool) -> None:
    assert is_last_attempt(task(attempt, own), 3) is last


def test_a_retry_without_an_attempt_left_is_the_end() -> None:
    spec, retry = JobSpec("job", max_attempts=3), Retry(5.0, FAILED)
    assert disposition(retry, task(2), spec, SEEN) is retry
    assert disposition(retry, task(3), spec, SEEN) == Dead(FAILED, SEEN)


def test_a_retry_that_does_not_count_is_never_the_end() -> None:
    retry = Retry(5.0, FAILED, counts=False)
    assert disposition(retry, task(9), JobSpec("job", max_attempts=3), SEEN) is retry


def test_a_dead_letter_has_the_last_failure_in_its_history() -> None:
    letter = letter_of(task(3, history=(Failure("reset"),)), Dead(FAILED, SEEN), 8.0)
    assert [failure.kind for failure in letter.task.history] == ["reset", "timeout"]
    assert (letter.kind, letter.at, letter.snapshot) == ("timeout", 8.0, SEEN)


def test_a_redirect_costs_no_attempt_and_the_task_stays_itself() -> None:
    to = Task("http://b.test/", host="b.test", fingerprint=1, variant=2)
    moved = redirected(task(2, created_at=4.0), to)
    assert (moved.url, moved.host, moved.id, moved.job) == ("http://b.test/", "b.test", 9, "job")
    assert (moved.attempt, moved.created_at, moved.fingerprint, moved.variant) == (1, 4.0, 1, None)


@pytest.mark.parametrize(
    ("page", "variant", "kept", "own"),
    [(None, None, [], None), (1, None, [1], 1), (1, 2, [1, 2], 2)],
)
def test_a_task_is_known_by_its_page_and_its_variant(
    page: int | None, variant: int | None, kept: list[int], own: int | None
) -> None:
    one = task(0, fingerprint=page, variant=variant)
    assert (marks(one), own_mark(one)) == (kept, own)


@pytest.mark.parametrize(("done", "leased", "left"), [(0, 0, 10), (4, 3, 3), (8, 2, 0), (9, 4, 0)])
def test_leases_count_against_a_page_budget(done: int, leased: int, left: int) -> None:
    assert budget_left(JobSpec("job", max_pages=10), done, leased) == left


def test_without_a_page_budget_there_is_no_bound() -> None:
    assert budget_left(JobSpec("job"), 10**6, 10**6) > 10**6

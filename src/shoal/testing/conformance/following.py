"""What viewers are told of pages that are visited again and again: which wait, which are overdue, what is due next."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.frontier.following import Followed
from shoal.frontier.protocol import Frontier
from shoal.model import Retry, Revisit
from shoal.model.page_record import PageRecord
from shoal.testing.conformance.tools import FAILED, claim, make_task, settle, start_job
from shoal.testing.manual_clock import ManualClock


def _by_path(pages: list[Followed] | tuple[Followed, ...]) -> dict[str, tuple[bool, float]]:
    return {page.task.url.rpartition("/")[2]: (page.waits, page.due) for page in pages}


class FollowedPages:
    async def test_followed_pages_are_told_wherever_they_are(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        names = ("waits", "pending", "leased", "retried", "fresh")
        await start_job(frontier, [make_task(f"http://{name}.test/{name}") for name in names])
        leases = {lease.task.url.rpartition("/")[2]: lease for lease in (await claim(frontier)).leases}
        began = await frontier.now()
        waits = {"waits": 1000.0, "pending": 10.0, "leased": 5.0, "retried": 4.0}
        for name, seconds in waits.items():
            record = PageRecord(visits=1, checked_at=began, interval=seconds)
            await settle(frontier, leases[name], Revisit(seconds, record))
        await frontier.release([leases["fresh"]])
        await frontier.add("job", [make_task("http://news.test/", record=PageRecord())])
        clock.advance(6)
        claimed = (await claim(frontier)).leases
        due = {lease.task.url.rpartition("/")[2]: lease for lease in claimed}
        await settle(frontier, due["retried"], Retry(100.0, FAILED))
        clock.advance(5)
        found = await frontier.following("job")
        assert found.whole
        # Nobody has claimed since it was due, so one of them still counts as waiting.
        assert _by_path(list(found.pages)) == {
            "waits": (True, _About(began + 1000)),
            "pending": (True, _About(began + 10)),
            "leased": (False, _About(began + 5)),
            "retried": (False, _About(began + 4)),
        }
        assert found.next_due == _About(began + 10)
        await frontier.release((await claim(frontier)).leases)
        found = await frontier.following("job")
        assert _by_path(list(found.pages))["pending"] == (False, _About(began + 10))
        assert found.next_due == _About(began + 1000)

    async def test_a_sample_of_many_followed_pages_is_a_fair_one(
        self, frontier: Frontier, clock: ManualClock
    ) -> None:
        pages = [make_task(f"http://h{n % 7}.test/{n}") for n in range(300)]
        await start_job(frontier, pages)
        for place, lease in enumerate((await claim(frontier, 300)).leases):
            record = PageRecord(visits=1, checked_at=await frontier.now(), interval=60.0 + place)
            await settle(frontier, lease, Revisit(60.0 + place, record))
        now = await frontier.now()
        found = await frontier.following("job", 30)
        assert not found.whole
        assert 25 <= len(found.pages) <= 60
        mean = sum(page.due - now for page in found.pages) / len(found.pages)
        assert 150 <= mean <= 270, "of 60 to 359 seconds"
        assert found.next_due == _About(now + 60)
        assert (await frontier.following("job")).whole

    async def test_pages_of_other_jobs_are_not_told(self, frontier: Frontier, clock: ManualClock) -> None:
        await start_job(frontier, [make_task("http://a.test/")])
        await frontier.open_job(replace((await frontier.jobs())[0].spec, name="other"))
        [lease] = (await claim(frontier)).leases
        await settle(frontier, lease, Revisit(10.0, PageRecord(visits=1, interval=10.0)))
        assert len((await frontier.following("job")).pages) == 1
        other = await frontier.following("other")
        assert (list(other.pages), other.next_due, other.whole) == ([], None, True)
        [queue] = await frontier.host_queues("a.test")
        assert (queue.pending, queue.delayed, queue.waiting) == (0, 1, 1)


class _About(float):
    """Equal within a hundredth: a home may round."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(float(self) - float(other)) < 0.02

    __hash__ = float.__hash__

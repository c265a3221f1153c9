"""The counters of a spider: added to with the page, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.frontier.protocol import Frontier
from shoal.frontier.values import Cursor
from shoal.limits import COUNTER_MOST, COUNTER_NAMES
from shoal.model import Done, Row, Settlement
from shoal.testing.conformance.tools import ListJournal, claim, counted, make_task, start_job


class Counting:
    async def test_own_counters_are_added_up(self, frontier: Frontier) -> None:
        """Over all hosts and batches; a page that is settled twice counts once."""
        tasks = [make_task(f"http://h{n}.test/") for n in range(6)]
        await start_job(frontier, tasks)
        leases = (await claim(frontier)).leases
        counts = (("variants", 3), ("größe: m", 1))
        settlements = [Settlement(lease, Done(), counts=counts) for lease in leases]
        await frontier.settle(settlements[:4])
        await frontier.settle([*settlements, *settlements])
        assert (await counted(frontier)).counts == {"größe: m": 6, "variants": 18}
        assert [job.counts for job in await frontier.jobs()] == [{"größe: m": 6, "variants": 18}]

    async def test_own_counters_are_committed_with_the_rows(self, frontier: Frontier) -> None:
        class Full(ListJournal):
            def append(self, committed: int, rows: Sequence[Row]) -> int:
                raise OSError(28, "No space left on device")

        await start_job(frontier, [make_task("http://a.test/")])
        [lease] = (await claim(frontier)).leases
        settlement = Settlement(lease, Done(), (), (Row(b"row\n"),), counts=(("rows", 1),))
        try:
            await frontier.settle([settlement], Full())
        except OSError:
            pass
        else:
            raise AssertionError("the journal's failure was swallowed")
        assert (await counted(frontier)).counts == {}
        await frontier.settle([settlement], ListJournal())
        assert (await counted(frontier)).counts == {"rows": 1}

    async def test_a_job_has_so_many_own_counters(self, frontier: Frontier) -> None:
        """Further names are counted together, and nothing is lost. Names that are known go on."""
        tasks = [make_task(f"http://h{n % 5}.test/{n}") for n in range(10)]
        await start_job(frontier, tasks)
        for place, lease in enumerate((await claim(frontier)).leases):
            counts = tuple((f"{place} {n}", 1) for n in range(COUNTER_NAMES // 5))
            await frontier.settle([Settlement(lease, Done(), counts=(("known", 1), *counts))])
        found = (await counted(frontier)).counts
        assert len(found) == COUNTER_NAMES + 1
        assert found["known"] == 10
        assert sum(found.values()) == 10 + 2 * COUNTER_NAMES
        assert found["(other)"] == 1 + COUNTER_NAMES

    async def test_an_own_counter_stays_at_its_end(self, frontier: Frontier) -> None:
        tasks = [make_task(f"http://a.test/{n}") for n in range(3)]
        await start_job(frontier, tasks)
        for lease in (await claim(frontier)).leases:
            counts = (("bytes", COUNTER_MOST // 2 + 7), ("(other)", COUNTER_MOST // 2 + 7))
            await frontier.settle([Settlement(lease, Done(), counts=counts)])
        assert (await counted(frontier)).counts == {"(other)": COUNTER_MOST, "bytes": COUNTER_MOST}

    async def test_own_counters_go_with_their_job(self, frontier: Frontier) -> None:
        await start_job(frontier, [make_task("http://a.test/")], Cursor(fed_all=True))
        [lease] = (await claim(frontier)).leases
        await frontier.settle([Settlement(lease, Done(), counts=(("seen", 1),))])
        assert await frontier.finish("job")
        job = await counted(frontier)
        assert await frontier.prune_job(job)
        past = await frontier.past_job("job")
        assert past is not None
        assert past.job.counts == {"seen": 1}
        await start_job(frontier, [])
        assert (await counted(frontier)).counts == {}

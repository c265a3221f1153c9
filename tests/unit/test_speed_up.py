"""How much two processes can be quicker than one, by what all of it costs."""

from __future__ import annotations

import pytest
from benchmarks.crawl.speed_up import speed_up
from benchmarks.peers.asked import Asked
from benchmarks.peers.measure import Run


def run(cpu: float, wall: float, server: float, others: float = 0.0) -> Run:
    asked = Asked(pages=100, cpu=server)
    return Run(pages=100, cpu=cpu, wall=wall, memory=0, asked=asked, others=others)


@pytest.mark.parametrize(
    ("cores", "most"),
    [
        (2, 2 * 10.0 / (11.0 + 1.0)),  # the server takes its part of the same cores
        (4, 2 * 10.0 / 11.0),
    ],
)
def test_two_processes_share_their_cores_with_the_server(cores: int, most: float) -> None:
    found = speed_up([run(10.0, 10.0, 1.0)], [run(11.0, 6.0, 1.0)], cores)
    assert found.measured == pytest.approx(10.0 / 6.0)
    assert found.most == pytest.approx(most)
    assert "1.67 times" in str(found)


def test_rounds_beside_other_work_say_nothing_about_time() -> None:
    loaded = [run(10.0, 40.0, 0.0, others=1.5)], [run(10.0, 20.0, 0.0, others=0.0)]
    assert speed_up(*loaded, 2).measured is None
    assert "No round was quiet" in str(speed_up(*loaded, 2))
    quiet = [run(10.0, 10.0, 0.0)], [run(10.0, 8.0, 0.0)]
    found = speed_up([*loaded[0], *quiet[0]], [*loaded[1], *quiet[1]], 2)
    assert (found.measured, found.quiet) == (1.25, 1)

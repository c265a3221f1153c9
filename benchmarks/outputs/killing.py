"""A crawl of the site that is killed with kill -9: while it starts, while it works, while it ends."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.kill import _children as children_of
from benchmarks.outputs.site import Site
from benchmarks.shop import Running, Start, finished, kill_if_alive, until

SPIDER = Path(__file__).with_name("spider.py")
WORKERS = 3
SECONDS = 1.5  # between two kills: longer than a process takes to start
STARTING = 0.6  # seconds that a process takes to start
ENDING = 0.4  # seconds that it takes to end


class Killing:
    """Kills a crawl of the site `kills` times; `start` starts a `shoal` command in the folder of the outputs."""

    def __init__(
        self,
        site: Site,
        start: Start,
        outputs: Sequence[str],
        kills: int,
        seed: int = 0,
        seconds: float = SECONDS,
    ) -> None:
        os.environ["SITE_URL"] = site.url
        self._site, self._start = site, start
        self._rng = random.Random(seed)
        self._outputs = [word for output in outputs for word in ("-o", output)]
        in_middle = kills - kills // 3 if kills < 6 else kills - 2
        self._moments = sorted(self._rng.uniform(0.02, 0.95) * site.pages for _ in range(in_middle))
        self._endings = kills - in_middle
        rate = site.pages / (in_middle + 1) / seconds
        self._speed = ("--rate", f"{rate:.2f}", "--per-host", "20", "-s", "retry_base=0.05")
        self.killed = 0

    # -- one command

    def crawl(self, processes: int, *options: str) -> Running:
        """Kills, and starts the same command again; answers the last one, which has ended by itself."""
        command = (
            "crawl",
            str(SPIDER),
            *self._outputs,
            "--processes",
            str(processes),
            *self._speed,
            *options,
        )
        crawl = self._start(*command)
        for number, moment in enumerate(self._moments):
            if not self._wait(moment, lambda: not crawl.running):  # noqa: B023
                break
            workers = [pid for child in children_of(crawl.pid) for pid in children_of(child)]
            if processes > 1 and workers and number % 2 == 0:
                kill_if_alive(self._rng.choice(workers))
                self.killed += 1
            else:
                crawl = self._kill(crawl, command)
                if number % 3 == 1:  # and at once again
                    self._pause(STARTING)
                    crawl = self._kill(crawl, command)
        for _ in range(self._endings):
            until(lambda: self._site.visits >= self._site.pages or not crawl.running, "the last page")  # noqa: B023
            self._pause(ENDING)
            crawl = self._kill(crawl, command)
        until(lambda: not crawl.running, "the end of the crawl")
        return crawl

    def _kill(self, crawl: Running, command: Sequence[str]) -> Running:
        """One that has just ended by itself is started again all the same: that must change nothing."""
        self.killed += crawl.running
        crawl.kill()
        return self._start(*command)

    # -- a fleet

    def fleet(self, store: str, *options: str) -> None:
        """Kills workers of a fleet, each of which is replaced, until the job has finished."""
        submit = self._start(
            "submit",
            str(SPIDER),
            "--store",
            store,
            *self._outputs,
            *self._speed,
            "-s",
            "total_timeout=5",
            *options,
        )
        until(lambda: not submit.running, "the job to be submitted")
        workers = [self._worker(store) for _ in range(WORKERS)]
        moments = [*self._moments, *[float(self._site.pages)] * self._endings]
        for number, moment in enumerate(moments):
            if not self._wait(moment, lambda: not any(worker.running for worker in workers)):
                break
            victim = self._rng.randrange(WORKERS)
            workers[victim].kill()
            workers[victim] = self._worker(store)
            self.killed += 1
            if number % 3 == 1:
                self._pause(STARTING)
                workers[victim].kill()
                workers[victim] = self._worker(store)
                self.killed += 1
        until(lambda: not any(worker.running for worker in workers), "the end of the workers")
        if not finished(store):
            raise SystemExit("the workers ended before the job; their log says why")

    def _worker(self, store: str) -> Running:
        return self._start(
            "worker", str(SPIDER), "--store", store, "-s", "lease=5", "-s", "trust=store", "--until-done"
        )

    # -- moments

    def _wait(self, moment: float, ended: Callable[[], bool]) -> bool:
        """Until the site has seen so many requests. False if the crawl has ended before."""
        until(lambda: self._site.visits >= moment or ended(), "more visits")
        return not ended()

    def _pause(self, most: float) -> None:
        time.sleep(self._rng.uniform(0, most))

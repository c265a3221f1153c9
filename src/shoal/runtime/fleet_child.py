"""A worker process of `shoal up`: `python -m shoal.runtime.fleet_child`, told its plan on a socket that it inherits."""

from __future__ import annotations

import sys

from shoal.frontier import hint_at
from shoal.runtime.child import Line, led_by_parent, line_from
from shoal.runtime.worker import serve
from shoal.runtime.worker_plan import WorkerPlan


async def work(plan: WorkerPlan, line: Line) -> None:
    hint_at(plan.store)
    await serve(plan, led_by_parent, line.report_regularly)


if __name__ == "__main__":
    sys.exit(line_from(sys.argv).run(WorkerPlan, work))

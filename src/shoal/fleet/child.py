"""A worker process of `shoal up`: `python -m shoal.fleet.child`, told its plan on standard input."""

from __future__ import annotations

import sys

import msgspec

from shoal.child import led_by_parent, report_regularly, say
from shoal.errors import ShoalError
from shoal.fleet.plan import WorkerPlan
from shoal.fleet.worker import serve
from shoal.loop import run_loop
from shoal.observe.logging import set_up
from shoal.supervisor import Word


def main() -> int:
    set_up("WARNING")
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerPlan)
    try:
        run_loop(serve(plan, led_by_parent, report_regularly))
    except ShoalError as error:
        say(Word(error=str(error)))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

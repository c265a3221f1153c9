"""Fuzzes what reads bytes from elsewhere.

python -m shoal.testing.fuzz                            every target, a million inputs each (hours)
python -m shoal.testing.fuzz html --seconds 60          one target, for a minute
python -m shoal.testing.fuzz --corpus                   only what is written in the corpus
python -m shoal.testing.fuzz html --replay FILE         one input again
python -m shoal.testing.fuzz html --engine atheris      guided by coverage (pip install atheris)
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from shoal.errors import UsageError
from shoal.testing.fuzz.corpus import inputs
from shoal.testing.fuzz.guided import Guided, fuzz_guided
from shoal.testing.fuzz.targets import LIVE, TARGETS
from shoal.testing.fuzz.trial import Trial, Work, again
from shoal.testing.fuzz.watcher import fuzz

_EVERY = 10.0  # seconds between two words of progress


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the places where children are ended
    arguments = _arguments()
    if arguments.list:
        for target in TARGETS.values():
            _say(f"{target.name:13} {target.rule}")
        return 0
    names = arguments.targets or [name for name in TARGETS if not (arguments.pure and name in LIVE)]
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        _say(f"no target {unknown[0]!r}: these are known: {', '.join(TARGETS)}")
        return 2
    if arguments.replay is not None:
        return _replay(names[0], arguments.replay)
    if arguments.engine == "atheris":
        return _fuzz_guided(names, arguments)
    return max(_fuzz(name, arguments) for name in names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m shoal.testing.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all of them")
    parser.add_argument("--list", action="store_true", help="the targets, and what must hold for each")
    parser.add_argument("--inputs", type=int, help="default: 1,000,000; fewer for targets with a server")
    parser.add_argument("--seconds", type=float, default=0.0, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--corpus", action="store_true", help="nothing but the inputs that are written down")
    parser.add_argument("--pure", action="store_true", help="leave out the targets that start a server")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try one input and tell what it does")
    parser.add_argument("--engine", choices=("builtin", "atheris"), default="builtin")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), metavar="FOLDER")
    return parser.parse_args()


def _fuzz(name: str, arguments: argparse.Namespace) -> int:
    target = TARGETS[name]
    count = len(inputs(target)) if arguments.corpus else (arguments.inputs or target.inputs)
    work = Work(name, count, arguments.seed, arguments.seconds)
    spoken = began = time.monotonic()

    def progress(done: int) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > _EVERY:
            spoken = time.monotonic()
            _say(f"  {name}: {done:,} of {count:,} after {spoken - began:.0f} s")

    report = fuzz(work, arguments.findings, jobs=arguments.jobs, progress=progress)
    _say(str(report))
    for path in report.findings:
        first = path.with_suffix(".txt").read_text("utf-8").splitlines()[0]
        _say(f"  {first}\n    again: {again(name, path)}")
    return 1 if report.findings else 0


def _fuzz_guided(names: list[str], arguments: argparse.Namespace) -> int:
    if len(names) != 1:
        _say("--engine atheris takes one target")
        return 2
    target = TARGETS[names[0]]
    plan = Guided(arguments.inputs or target.inputs, arguments.seconds, arguments.seed, arguments.findings)
    try:
        fuzz_guided(target, plan)
    except UsageError as error:
        _say(str(error))
        return 2
    return 0


def _replay(name: str, path: Path) -> int:
    target = TARGETS[name]
    data = path.read_bytes()
    with target.open() as run:
        started = time.process_time()
        run(data)  # its exception, if it has one, is the answer
        _say(f"{name}: {len(data)} bytes took {time.process_time() - started:.3f} s of CPU time")
        found = Trial(target, run)(data)
    if found is not None:
        _say(f"{found.kind}: {found.what}")
    return 1 if found is not None else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

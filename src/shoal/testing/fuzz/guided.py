"""Fuzzing guided by coverage, with atheris (libFuzzer), which is installed on demand: `pip install atheris`."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from msgspec import Struct

from shoal.errors import UsageError
from shoal.testing.fuzz.corpus import inputs
from shoal.testing.fuzz.target import Target

# What is instrumented: the parts that read, and those of other packages that they are made of.
_OUR_ROOMS = ("admit", "config", "fetch", "frontier", "html", "jobs", "policy", "sink", "spider", "text")
_INSTRUMENTED = (
    *(f"shoal.{room}" for room in _OUR_ROOMS),
    *("protego", "yarl", "email", "tomllib"),
)
_TIMEOUT = 10  # seconds for one input


class Guided(Struct, frozen=True):
    inputs: int
    seconds: float
    seed: int
    folder: Path


def fuzz_guided(target: Target, plan: Guided) -> None:
    """Does not return: libFuzzer ends the process, with an exit code other than 0 if it found something."""
    try:
        atheris = import_module("atheris")
    except ImportError:
        raise UsageError("--engine atheris needs atheris: pip install atheris") from None
    plan.folder.mkdir(parents=True, exist_ok=True)
    with target.open() as run, tempfile.TemporaryDirectory(prefix="shoal-fuzz-") as corpus:
        for number, data in enumerate(inputs(target).values()):
            (Path(corpus) / f"{number}").write_bytes(data[: target.largest])
        words = Path(corpus) / "words.dict"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        for name, module in list(sys.modules.items()):
            if name.startswith(_INSTRUMENTED):
                _instrument(atheris, module)
        atheris.Setup(
            [
                *("fuzz", corpus, f"-dict={words}", f"-runs={plan.inputs}", f"-seed={plan.seed + 1}"),
                *(f"-max_len={target.largest}", f"-timeout={_TIMEOUT}", "-rss_limit_mb=2048"),
                f"-artifact_prefix={plan.folder}{os.sep}{target.name}-",
                *([f"-max_total_time={int(plan.seconds)}"] if plan.seconds else []),
            ],
            run,
        )
        atheris.Fuzz()


def _instrument(atheris: Any, module: ModuleType) -> None:
    """The functions of a module that was imported before atheris could see it."""
    for found in list(vars(module).values()):
        for function in [found, *vars(found).values()] if isinstance(found, type) else [found]:
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                atheris.instrument_func(function)


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)

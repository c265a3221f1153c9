"""Does what the Dockerfile says without a container engine, in a folder that stands for the image.

    python deploy/rehearse.py                    the version, as the image would tell it
    python deploy/rehearse.py worker --help      any other command

What differs: the interpreter is the one that runs this file, and the stages share one folder. When root runs it,
commands have the uid of the image; they may read everything, for the interpreter may lie in a private folder, but
write only where that uid may.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

_ABSOLUTE = re.compile(r"(?<![\w./-])/(?=\w)")
_AS_READER = ("--inh-caps", "--ambient-caps", "--bounding-set")


class Step(NamedTuple):
    word: str  # FROM, RUN, COPY …
    rest: str


def read_steps(dockerfile: str) -> list[Step]:
    """The instructions, with continued lines joined and comments gone."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    steps = [line.strip().partition(" ") for line in joined.splitlines() if line.strip()]
    return [Step(word.upper(), rest.strip()) for word, _, rest in steps]


def read_stages(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """Name → its steps, FROM among them; a stage without a name has its number."""
    stages: dict[str, list[Step]] = {}
    for step in steps:
        if step.word == "FROM":
            steps_of_stage = stages[step.rest.partition(" AS ")[2] or str(len(stages))] = []
        steps_of_stage.append(step)
    return stages


def needed(stages: Mapping[str, Sequence[Step]], target: str) -> list[str]:
    """The stage, after those that it is made from or copies from, in the order of the file."""
    wanted = {target}
    for name in reversed(stages):
        if name in wanted:
            for step in stages[name]:
                wanted |= (
                    {*re.split(r"[ =]", step.rest)} & stages.keys()
                    if step.word in ("FROM", "COPY")
                    else set()
                )
    return [name for name in stages if name in wanted]


class Rehearsal:
    """An image as a folder: build it, then run commands in it."""

    def __init__(self, folder: Path, context: Path = ROOT) -> None:
        self.folder = folder
        self.user = "0:0"
        self.entrypoint: list[str] = []
        self.env = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), SYSTEM_PATH]), "HOME": "/"}
        self._context = context
        self._workdir = folder
        self._workdirs: dict[str, Path] = {}  # of each stage, at its end
        folder.chmod(0o755)

    def build(self, target: str | None = None) -> None:
        """The steps of the stage that is wanted (the last, if none is named), and of those it is made from."""
        stages = read_stages(read_steps((self._context / "Dockerfile").read_text("utf-8")))
        for stage in needed(stages, target or list(stages)[-1]):
            for step in stages[stage]:
                do = getattr(self, f"do_{step.word.lower()}", None)
                if do is None:
                    raise ValueError(f"the rehearsal does not know {step.word}")
                do(step.rest)
            self._workdirs[stage] = self._workdir

    def place(self, path: str) -> Path:
        """Where something in the image is in the folder."""
        return self.folder / path.lstrip("/") if path.startswith("/") else self._workdir / path

    def run(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """The entrypoint with these words, or another program of the image if the first names its path."""
        command = list(words) if words and words[0].startswith("/") else [*self.entrypoint, *words]
        return subprocess.run(
            [*self.as_user(), *command],
            env={**self.env, **(env or {})},
            cwd=cwd or self._workdir,
            timeout=timeout,
            capture_output=True,
            text=True,
        )

    def as_user(self) -> list[str]:
        if os.getuid() != 0:
            return []
        uid, _, gid = self.user.partition(":")
        reading = [f"{option}=-all,+dac_read_search" for option in _AS_READER]
        return ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", *reading]

    # -- one method for each instruction that the Dockerfile uses

    def do_from(self, rest: str) -> None:
        """A stage that is made from another begins where that ended."""
        self._workdir = self._workdirs.get(rest.partition(" ")[0], self.folder)

    def do_workdir(self, rest: str) -> None:
        self._workdir = self.place(rest)
        self._workdir.mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest: str) -> None:
        options = [word for word in rest.split() if word.startswith("--")]
        *sources, target = [word for word in rest.split() if not word.startswith("--")]
        given = dict(option.removeprefix("--").split("=", 1) for option in options)
        if "from" in given:
            if sources != [target]:
                raise ValueError(f"COPY {rest}: what another stage made must stay where it is")
            if not self.place(target).exists():
                raise FileNotFoundError(f"COPY {rest}: the stage did not make it")
        for source in sources if "from" not in given else ():
            self._copy_from_context(source, self.place(target))
        if "chown" in given and os.getuid() == 0:
            uid, gid = map(int, given["chown"].split(":"))
            os.chown(self.place(target), uid, gid)

    def _copy_from_context(self, source: str, target: Path) -> None:
        path = self._context / source
        if path.is_dir():
            shutil.copytree(
                path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    def do_run(self, rest: str) -> None:
        command = self._inside(rest)
        done = subprocess.run(["/bin/sh", "-ec", command], cwd=self._workdir, env=self._building(),
                              capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"RUN {rest}\n{done.stdout}{done.stderr}")

    def do_env(self, rest: str) -> None:
        for pair in shlex.split(rest):
            name, _, value = pair.partition("=")
            self.env[name] = self._inside(value).replace("$PATH", self.env["PATH"])

    def do_user(self, rest: str) -> None:
        self.user = rest

    def do_entrypoint(self, rest: str) -> None:
        self.entrypoint = json.loads(rest)

    def do_label(self, rest: str) -> None: ...

    def do_stopsignal(self, rest: str) -> None: ...

    def do_cmd(self, rest: str) -> None: ...

    def _inside(self, text: str) -> str:
        """Every absolute path is one of the image."""
        return _ABSOLUTE.sub(f"{self.folder}/", text)

    def _building(self) -> dict[str, str]:
        """The surroundings of a RUN: our own (pip's settings and cache), and the image's PATH."""
        return {**os.environ, "PATH": self.env["PATH"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def main(words: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="shoal-image-") as folder:
        image = Rehearsal(Path(folder))
        image.build()
        done = image.run(*(words or ["--version"]))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

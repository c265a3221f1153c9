"""The steps of the Dockerfile, rehearsed: a fresh environment from the registry, and Shoal in it as its own user."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.deploy_commands import load_script
from shoal import __version__
from shoal.testing.servers import ValkeyServer

ROOT = Path(__file__).parents[2]
PASSWORD = "word"


rehearse = load_script("rehearse")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where another user can go, unlike pytest's own."""
    made = tempfile.mkdtemp(prefix="shoal-image-")
    yield Path(made)
    shutil.rmtree(made)


def test_steps_are_read_as_they_are_meant() -> None:
    text = "# a\nFROM x AS y\n\nLABEL a=1 \\\n      b=2\nRUN one && \\\n  two\n"
    assert rehearse.read_steps(text) == [("FROM", "x AS y"), ("LABEL", "a=1  b=2"), ("RUN", "one &&  two")]


def test_an_unknown_step_is_not_passed_over(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM x\nVOLUME /data\n")
    with pytest.raises(ValueError, match="VOLUME"):
        rehearse.Rehearsal(folder, folder).build()


def test_a_step_that_fails_is_told(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM x\nRUN echo why >&2; exit 3\n")
    with pytest.raises(RuntimeError, match="why"):
        rehearse.Rehearsal(folder, folder).build()


@pytest.mark.slow
def test_the_image_works(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, as building takes its time."""
    image = rehearse.Rehearsal(folder)
    # Most modules are not imported here, and those that are, are compiled then. (Of an option whose name begins with
    # "no", pip reads 0 as: no.)
    monkeypatch.setenv("PIP_NO_COMPILE", "0")
    image.build()
    compiled = folder / "compiled"
    compiled.mkdir()
    compiled.chmod(0o777)
    image.env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}
    check_files(image)
    check_user(image)
    check_commands(image)
    with ValkeyServer(tmp_path, appendonly=True, fsync="always", password=PASSWORD) as valkey:
        check_worker(image, valkey)


def check_files(image: Any) -> None:
    """Any user may read them, and they are those of the wheel: with data files, without tests."""
    made = image.place("/opt/shoal")
    for path in made.rglob("*"):
        needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        assert path.is_symlink() or path.stat().st_mode & needed == needed, path
    [package] = made.glob("lib/python3*/site-packages/shoal")
    source = ROOT / "src" / "shoal"
    names = {
        path.relative_to(source) for path in source.rglob("*") if path.suffix in (".py", ".lua", ".typed")
    }
    assert names - {path.relative_to(package) for path in package.rglob("*")} == set()
    assert not list(made.glob("lib/python3*/site-packages/pytest"))
    assert not list(made.glob("lib/python3*/site-packages/pip"))


def check_user(image: Any) -> None:
    python = str(image.place("/opt/shoal/bin/python"))
    uid = image.run(python, "-c", "import os; print(os.getuid())").stdout.strip()
    assert uid == (image.user.partition(":")[0] if os.getuid() == 0 else str(os.getuid()))
    assert uid != "0"
    assert image.run(python, "-c", "open('x', 'w').close()").returncode == 0  # the working directory
    if os.getuid() == 0:
        refused = image.run(python, "-c", f"open({str(image.place('/opt/shoal/x'))!r}, 'w')")
        assert "PermissionError" in refused.stderr


def check_commands(image: Any) -> None:
    """In a folder that cannot be written to, as with a read-only root file system."""
    shut = image.folder / "shut"
    shut.mkdir(mode=0o555)
    assert image.run("--version", cwd=shut).stdout.strip() == f"shoal {__version__}"
    helped = image.run("--help", cwd=shut).stdout
    assert all(command in helped for command in ("worker", "coordinator", "dashboard", "submit", "status"))
    python = str(image.place("/opt/shoal/bin/python"))
    assert (
        image.run(
            python, "-c", "import redis, hiredis, asyncpg, prometheus_client, lxml, h2, opentelemetry.sdk"
        ).returncode
        == 0
    )


def check_worker(image: Any, valkey: ValkeyServer) -> None:
    """As in the compose file: the password comes from the environment, and SIGTERM ends it well."""
    spiders = str(ROOT / "deploy" / "spiders")
    store = {"SHOAL_STORE": f"redis://127.0.0.1:{valkey.port}", "SHOAL_REDIS_PASSWORD": PASSWORD}
    command = [*image.as_user(), *image.entrypoint, "worker", spiders, "--no-coordinator"]
    environ = {**image.env, **store}
    shut = image.folder / "shut"
    with subprocess.Popen(command, cwd=shut, env=environ, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr is not None
            assert "worker for books" in worker.stderr.readline()
            deadline = time.monotonic() + 30
            while not (workers := fleet(image, store)["workers"]) and time.monotonic() < deadline:
                pass
            assert [one["spiders"] for one in workers] == [["books", "shoal:summary"]]
        finally:
            worker.terminate()
        assert worker.wait(30) == 0


def fleet(image: Any, store: dict[str, str]) -> dict[str, Any]:
    """What the startup probe asks for."""
    told = image.run("status", "--json", env=store)
    assert told.returncode == 0, told.stderr
    answer: dict[str, Any] = json.loads(told.stdout)
    return answer

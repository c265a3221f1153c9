"""The Dockerfile and the compose file: every word is known, nothing runs as root, and commands are real ones."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from docs.deploy_commands import unknown_words
from docs.deploy_schema import Compose, ComposeService
from shoal import __version__
from shoal.config import NOT_SETTINGS
from shoal.frontier.redis.address import Address
from shoal.loading import load_spiders
from shoal.settings import Settings
from shoal.sink import is_database
from shoal.testing.servers import ValkeyServer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
RAW = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
COMPOSE = msgspec.convert(RAW, Compose)
SHOAL = {name: one for name, one in COMPOSE.services.items() if one.image.startswith("shoal:")}
SERVERS = {name: one for name, one in COMPOSE.services.items() if name not in SHOAL}


def steps() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", " ", DOCKERFILE).splitlines()
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in parts]


def given(word: str) -> list[str]:
    return [rest for one, rest in steps() if one == word]


# -- the Dockerfile


def test_the_image_is_pinned_and_made_in_two_stages() -> None:
    first, second = given("FROM")
    assert first == f"{second} AS build"
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", second)


def test_the_image_runs_shoal_as_a_numbered_user_without_a_shell() -> None:
    [user] = given("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert [word for word, _ in steps()].index("USER") > max(
        n for n, (word, _) in enumerate(steps()) if word in ("RUN", "COPY")
    )
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


# -- compose


def test_an_unknown_word_would_be_found() -> None:
    broken: dict[str, Any] = json.loads(json.dumps(RAW))
    broken["services"]["worker"]["stop_grace"] = "45s"
    with pytest.raises(msgspec.ValidationError, match="stop_grace"):
        msgspec.convert(broken, Compose)


def test_the_services_are_there() -> None:
    assert set(SHOAL) == {"coordinator", "worker", "submit"}
    assert set(SERVERS) == {"valkey", "postgres"}
    assert [name for name, one in COMPOSE.services.items() if one.profiles] == ["submit"]


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
    assert service.command[1].startswith("/spiders")
    assert service.image == f"shoal:${{SHOAL_VERSION:-{__version__}}}"
    assert service.build is not None
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
    passwords = {name for name in wanted if name.endswith("PASSWORD")}
    assert all(example[name] == "" for name in passwords)
    # Without a value compose stops, and says why.
    assert set(re.findall(r"\$\{(\w+):\?", text)) == passwords
    assert all(
        example[name] == value for name, value in re.findall(r"\$\{(\w+):-([^}]*)", text) if name in example
    )


# -- what is mounted


def test_the_spiders_can_be_loaded() -> None:
    assert set(load_spiders([str(DEPLOY / "spiders")])) == {"books"}


def test_valkey_understands_its_configuration(tmp_path: Path) -> None:
    lines = (DEPLOY / "valkey" / "valkey.conf").read_text().splitlines()
    settings = dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    assert settings.pop("dir") == "/data"
    with ValkeyServer(tmp_path, password="word", maxmemory="1gb", settings=settings) as server:
        told = dict(zip(*[iter(server.command("CONFIG", "GET", "append*"))] * 2, strict=True))
        assert (told[b"appendonly"], told[b"appendfsync"]) == (b"yes", b"always")
        assert server.command("CONFIG", "GET", "maxmemory-policy")[1] == b"noeviction"

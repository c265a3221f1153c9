"""What a worker lets a job decide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal import Spider
from shoal.errors import TrustError
from shoal.frontier.values import JobSpec
from shoal.jobs.note import SECRET, write_note
from shoal.runtime.trust import check_settings, own_output, own_reach, trusts_store
from shoal.runtime.worker_plan import OWN, WorkerPlan
from shoal.settings import HostSettings, Settings

KEY = {"Authorization": "Bearer x"}


def spider_at(start: object = "https://shop.example/") -> Spider:
    return Spider("shop", start=start)  # type: ignore[arg-type]


# -- who is trusted


@pytest.mark.parametrize("store", ["redis://queue/", "rediss://user:pw@queue:6379/0"])
def test_a_server_is_not_trusted_unless_one_says_so(store: str) -> None:
    assert not trusts_store(Settings(), store)
    assert trusts_store(Settings(trust="store"), store)


@pytest.mark.parametrize(
    ("mode", "trusted"), [(0o600, True), (0o644, True), (0o664, False), (0o666, False), (0o602, False)]
)
def test_a_file_is_trusted_if_only_its_owner_writes_to_it(tmp_path: Path, mode: int, trusted: bool) -> None:
    path = tmp_path / "shoal.db"
    path.touch()
    path.chmod(mode)
    assert trusts_store(Settings(), str(path)) is trusted
    assert not trusts_store(Settings(trust="self"), str(path))


def test_what_is_not_there_yet_is_made_by_us() -> None:
    assert trusts_store(Settings(), ":memory:")


def test_a_job_cannot_say_whom_the_worker_trusts() -> None:
    assert {"trust", "outputs"} <= OWN | SECRET
    note = write_note(b"x.jsonl", Settings(trust="store", outputs=["/"]), "submit")
    plan = WorkerPlan((), "redis://queue/")
    settings = plan.settings_for(JobSpec("j", spider="shop", settings=note), spider_at())
    assert (settings.trust, settings.outputs) == ("auto", Settings().outputs)


def test_headers_of_hosts_are_the_workers_own() -> None:
    """A job has the names of its headers, and no job can have a worker send its own elsewhere."""
    table = {"rate": 1.0, "headers": {"Authorization": "theirs", "X": "theirs"}}
    noted = {"a.example": HostSettings(**table), "*.evil.example": HostSettings(**table)}  # type: ignore[arg-type]
    note = write_note(b"x.jsonl", Settings(host=noted), "submit")
    assert b"theirs" not in note
    mine = {"a.example": {"headers": {"Authorization": "mine"}}, "b.example": {"headers": {"Y": "mine"}}}
    plan = WorkerPlan((), "redis://queue/", flags={"host": mine})
    settings = plan.settings_for(JobSpec("j", spider="shop", settings=note), spider_at())
    assert {name: (table.rate, table.headers) for name, table in settings.host.items()} == {
        "a.example": (1.0, {"Authorization": "mine"}),
        "*.evil.example": (1.0, {}),
        "b.example": (None, {"Y": "mine"}),
    }


# -- imports and networks


def test_imports_are_the_workers_to_grant() -> None:
    mine = Settings(policies=["rate", "mine:Policy"], challenge_check="mine:check")
    check_settings(Settings(), mine)
    check_settings(Settings(policies=["mine:Policy", "breaker"], challenge_check="mine:check"), mine)
    with pytest.raises(TrustError, match=r"policies: 'os:abort' would be imported; add it to policies"):
        check_settings(Settings(policies=["rate", "os:abort"]), mine)
    with pytest.raises(TrustError, match=r"challenge_check: 'os:abort' would be imported"):
        check_settings(Settings(challenge_check="os:abort"), mine)


def test_private_networks_are_the_workers_to_open() -> None:
    check_settings(Settings(allow_network=["10.1.0.0/16"]), Settings(allow_network=["10.1.0.0/16"]))
    with pytest.raises(TrustError, match="allow_network"):
        check_settings(Settings(allow_network=["10.0.0.0/8"]), Settings(allow_network=["10.1.0.0/16"]))
    check_settings(Settings(trust_start=True), Settings(trust_start=True))
    with pytest.raises(TrustError, match="trust_start"):
        check_settings(Settings(trust_start=True), Settings())


# -- files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "worker [1]"  # brackets mean something in patterns, but not here
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("output", ["rows.jsonl", "results/rows.jsonl", "./a/../rows.jsonl", "ü.jsonl"])
def test_rows_may_go_below_the_workers_folder(here: Path, output: str) -> None:
    assert own_output([output], "j", Settings(), {}) == [output]
    assert own_output([str(here / output)], "j", Settings(), {}) == [str(here / output)]


@pytest.mark.parametrize(
    "output",
    [
        "../rows.jsonl",
        "a/../../rows.jsonl",
        "/etc/rows.jsonl",
        "rows.json",
        "shoal.toml",
        "site.py",
        ".shoal/rows.jsonl",
        ".rows.jsonl",
        "a/.ssh/rows.jsonl",
        "rows.jsonl\0.txt",
        "out/rows.jsonl",
        "",
    ],
)
def test_and_nowhere_else(here: Path, output: str) -> None:
    (here / "out").symlink_to("/var/tmp")
    with pytest.raises(TrustError, match="would go to the file" if output else "no place for its rows"):
        own_output([output] if output else [], "j", Settings(), {})


def test_patterns_widen_and_narrow(here: Path, tmp_path: Path) -> None:
    settings = Settings(outputs=["results/", f"{tmp_path}/data/*.csv", ".hidden/*"])
    for output in ("results/a", "results/b/c.txt", f"{tmp_path}/data/x.csv", ".hidden/x"):
        assert own_output([output], "j", settings, {}) == [output]
    for output in ("rows.jsonl", "resultsx/a", f"{tmp_path}/data/x.txt", f"{tmp_path}/data/../y.csv"):
        with pytest.raises(TrustError):
            own_output([output], "j", settings, {})


# -- databases


@pytest.mark.parametrize(
    ("output", "environ"),
    [
        ("postgresql://", {}),
        ("postgresql:///shop", {"PGPASSWORD": "x"}),
        ("postgresql://?history=1", {}),
        ("postgresql://db/shop", {"PGHOST": "db"}),
        ("postgresql://me@db:5432/shop", {"PGHOST": "db"}),
        ("postgresql://db:6000/shop", {"PGHOST": "db", "PGPORT": "6000"}),
    ],
)
def test_the_database_of_the_workers_environment_is_its_own(output: str, environ: dict[str, str]) -> None:
    assert own_output([output], "j", Settings(), environ) == [output]


@pytest.mark.parametrize(
    "output",
    [
        "postgresql://evil/shop",
        "postgresql://db,evil/shop",
        "postgresql://db:6000/shop",
        "postgresql:///shop?host=evil",
        "postgresql://db/shop?host=evil",
        "postgresql://db/shop?passfile=%2Fetc%2Fpasswd",
        "postgresql://db/shop?sslmode=disable",
        "postgresql://db/other?sslmode=require",
    ],
)
def test_another_database_gets_no_password(output: str) -> None:
    mine = Settings(outputs=["postgresql://me:hunter2@db/shop?sslmode=require"])
    with pytest.raises(TrustError, match="this worker's password, would go to") as told:
        own_output([output], "j", mine, {"PGHOST": "db"})
    assert "hunter2" not in str(told.value)


def test_a_database_that_is_allowed_is_opened_as_the_worker_wrote_it() -> None:
    entry = "postgresql://me:hunter2@db.example:6000/shop?sslmode=require"
    mine = Settings(outputs=["*.jsonl", entry])
    for output in ("postgresql://db.example:6000/shop?sslmode=require", entry.replace(":hunter2", "")):
        assert own_output([output], "j", mine, {}) == [entry]
    with pytest.raises(TrustError):
        own_output(["postgresql://root@db.example:6000/shop?sslmode=require"], "j", mine, {})
    assert "hunter2" not in repr(mine)
    assert b"hunter2" not in write_note(b"", mine)


# -- headers


def test_secret_headers_are_for_the_hosts_that_the_spider_and_the_worker_name() -> None:
    reach = own_reach(spider_at(), Settings(headers=KEY))
    assert reach is not None
    assert reach("https://shop.example/a")
    assert reach("https://www.shop.example/a")
    for url in ("https://evil.example/", "https://shop.example.evil.example/", "http://shop.example:81/"):
        assert not reach(url), url
    reach = own_reach(
        spider_at(Path("urls.txt")), Settings(session_headers={"s": KEY}, hosts=["shop.example"])
    )
    assert reach is not None
    assert reach("https://api.shop.example:81/")
    assert not reach("https://shop.example.evil.example/")


def test_a_worker_that_does_not_know_whom_its_secrets_are_for_says_so() -> None:
    with pytest.raises(TrustError, match="name hosts in the spider or in the settings of the workers"):
        own_reach(spider_at(Path("urls.txt")), Settings(headers=KEY))


def test_harmless_headers_and_those_meant_for_everybody_hold_nothing_up() -> None:
    public = {"Accept-Language": "de", "User-Agent": "x", "Sec-CH-UA": "y"}
    assert own_reach(spider_at(Path("urls.txt")), Settings(headers=public)) is None
    assert own_reach(spider_at(), Settings(headers=KEY, any_host=True)) is None
    assert own_reach(spider_at(), Settings()) is None


def test_the_plan_asks_for_none_of_it_where_the_store_is_trusted(tmp_path: Path) -> None:
    note = write_note(os.fsencode("/anywhere/x"), Settings(policies=["os:abort"]), "submit")
    spec = JobSpec("j", spider="shop", settings=note)
    plan = WorkerPlan((), str(tmp_path / "shoal.db"), flags={"headers": KEY})
    assert plan.settings_for(spec, spider_at()).policies == ["os:abort"]
    assert plan.output_for(spec, spider_at()) == ["/anywhere/x"]
    assert plan.reach_for(spider_at(Path("urls.txt"))) is None


def test_a_job_does_not_choose_the_folder_of_files() -> None:
    check_settings(Settings(), Settings(files="here"))
    check_settings(Settings(files="here"), Settings(files="here"))
    for elsewhere in ("/etc", "s3://bucket"):
        with pytest.raises(TrustError, match="files: downloaded files would go to"):
            check_settings(Settings(files=elsewhere), Settings(files="here"))


def test_a_bucket_must_be_named_by_the_worker() -> None:
    """Patterns for files do not open every bucket that the worker's keys do."""
    with pytest.raises(TrustError, match=r"its rows would go to 's3://other/rows.jsonl'; add it to outputs"):
        own_output(["s3://other/rows.jsonl"], "j", Settings(), {})
    mine = Settings(outputs=["s3://bucket/*"])
    assert own_output(["s3://bucket/a/rows.jsonl"], "j", mine, {}) == ["s3://bucket/a/rows.jsonl"]
    with pytest.raises(TrustError):
        own_output(["s3://other/rows.jsonl"], "j", mine, {})

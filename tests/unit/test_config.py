from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect, structs

from shoal import config
from shoal.config import load
from shoal.errors import SettingsError
from shoal.limits import HOST_TABLES
from shoal.settings import HostSettings, PoolSettings, Settings
from shoal.settings.typed_text import describe


def from_flags(**flags: Any) -> Settings:
    return load(None, {}, {}, flags)


def from_environ(**environ: str) -> Settings:
    return load(None, {}, environ, {})


def from_toml(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "my.toml"
    file.write_text(text)
    return load(file, {}, {}, {})


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_given_gives_the_defaults() -> None:
    assert load(None, {}, {}, {}) == Settings()


def test_later_layers_win(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text("concurrency = 1\nper_host = 1\nburst = 1\nprocesses = 7\n")
    settings = load(
        None,
        {"concurrency": 2, "per_host": 2, "burst": 2},
        {"SHOAL_CONCURRENCY": "3", "SHOAL_PER_HOST": "3"},
        {"concurrency": 4},
    )
    assert (settings.processes, settings.burst, settings.per_host, settings.concurrency) == (7, 2, 3, 4)


def test_a_given_file_is_read_instead_of_the_one_found(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text("rate = 1\n")
    assert load(None, {}, {}, {}).rate == 1
    settings = from_toml(tmp_path, "\ufeffconcurrency = 9\nhosts = ['a.example']\n[headers]\nX = '1'\n")
    assert settings == Settings(concurrency=9, hosts=["a.example"], headers={"X": "1"})


def test_a_flag_that_is_none_was_not_given() -> None:
    assert load(None, {"rate": 7}, {}, {"rate": None}).rate == 7


def test_a_spider_may_unset_depth() -> None:
    assert load(None, {"depth": None}, {}, {}).depth is None


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        *(("robots", text, True) for text in ("true", "1", "yes", "ON")),
        *(("robots", text, False) for text in ("False", "0", "no", "off")),
        ("concurrency", " 10_000 ", 10000),
        ("rate", "0.5", 0.5),
        ("rate", "3", 3.0),
        ("depth", "none", None),
        ("depth", "", None),
        ("depth", "4", 4),
        ("user_agent", "none", "none"),
        ("hosts", "a.example, b.example,", ["a.example", "b.example"]),
        ("hosts", "", []),
        ("deny", r'["\\d{1,2}", "x"]', [r"\d{1,2}", "x"]),
        ("deny", r"['\d{1,2}', 'x']", [r"\d{1,2}", "x"]),
        ("handle_status", "404, 410", [404, 410]),
        ("handle_status", "[404]", [404]),
        ("headers", '{"X": "1"}', {"X": "1"}),
    ],
)
def test_text_is_read_by_the_settings_type(key: str, text: str, value: object) -> None:
    assert getattr(from_flags(**{key: text}), key) == value
    assert getattr(from_environ(**{f"SHOAL_{key.upper()}": text}), key) == value


def message(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate = -1", "rate: -1 is not allowed; rate must be a number, at least 0"),
        ("rate = 'fast'", "rate: 'fast' is not allowed; rate must be a number, at least 0"),
        ("rate = nan", "rate: nan is not allowed; rate must be a number, at least 0"),
        ("lease = inf", "lease: inf is not allowed; lease must be a number, greater than 0"),
        ("concurrency = 0", "concurrency: 0 is not allowed; concurrency must be a whole number, at least 1"),
        ("concurrency = true", "concurrency: True is not allowed; concurrency must be a whole number, at least 1"),
        ("concurrency = '8'", "concurrency: '8' is not allowed; concurrency must be a whole number, at least 1"),
        ("depth = -1", "depth: -1 is not allowed; depth must be a whole number, at least 0 or none"),
        ("robots = 1", "robots: 1 is not allowed; robots must be true or false"),
        ("hosts = 'a.example'", "hosts: this value is not allowed; hosts must be a list of strings"),
        ("hosts = [1]", "hosts: this value is not allowed; hosts must be a list of strings"),
        (
            "handle_status = ['x']",
            "handle_status: this value is not allowed; handle_status must be a list of whole numbers",
        ),
        ("headers = 'x'", "headers: this value is not allowed; headers must be a table of strings"),
        ("user_agent = 1", "user_agent: this value is not allowed; user_agent must be a string"),
        ("concurency = 1", "'concurency' is not a setting; did you mean 'concurrency'?"),
        ("zzz = 1", "'zzz' is not a setting; docs/settings.md lists them all"),
        ("[crawl]\nrate = 1", "'crawl' is not a setting; docs/settings.md lists them all"),
    ],
)  # fmt: skip
def test_case_36_a_bad_file(tmp_path: Path, text: str, expected: str) -> None:
    assert message(from_toml, tmp_path, text) == f"{tmp_path / 'my.toml'}: {expected}"


def test_case_36_broken_toml_is_named_with_its_line(tmp_path: Path) -> None:
    text = message(from_toml, tmp_path, "rate = 1\nburst = = 2\n")
    assert text.startswith(f"{tmp_path / 'my.toml'}: is not valid TOML: ")
    assert "line 2" in text


def test_case_36_unreadable_files(tmp_path: Path) -> None:
    assert message(load, tmp_path / "gone.toml", {}, {}, {}).startswith(
        f"{tmp_path / 'gone.toml'}: cannot be read"
    )
    assert "cannot be read" in message(load, tmp_path, {}, {}, {})
    (tmp_path / "latin.toml").write_bytes(b"user_agent = '\xe4'")
    assert "UTF-8" in message(load, tmp_path / "latin.toml", {}, {}, {})


def test_case_36_environment() -> None:
    assert message(from_environ, SHOAL_RATE="fast").startswith(
        "SHOAL_RATE: 'fast' is not allowed; rate must be"
    )
    assert message(from_environ, SHOAL_RATE="-1").startswith("SHOAL_RATE: -1.0 is not allowed; rate must be")
    assert message(from_environ, SHOAL_ROBOTS="maybe").endswith("robots must be true or false")


def told(caplog: pytest.LogCaptureFixture, **environ: str) -> list[str]:
    caplog.clear()
    config._told.clear()
    assert from_environ(**environ) == from_environ(**environ) == Settings()
    return [record.getMessage() for record in caplog.records]


def test_an_unknown_variable_is_told_once_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def line(name: str, hint: str) -> list[str]:
        return [f"environment: {name} is not a setting and was passed over; {hint}"]

    assert told(caplog, SHOAL_PERHOST="1") == line("SHOAL_PERHOST", "did you mean 'SHOAL_PER_HOST'?")
    assert told(caplog, SHOAL_STOR="secret") == line("SHOAL_STOR", "did you mean 'SHOAL_STORE'?")
    assert told(caplog, SHOAL_rate="1") == line("SHOAL_rate", "did you mean 'SHOAL_RATE'?")
    for name in ("SHOAL_", "SHOAL_PORT"):
        assert told(caplog, **{name: "8080"}) == line(name, "docs/settings.md lists them all")


def test_a_variable_may_have_any_name(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = told(caplog, **{"SHOAL_\udcff\n": "x"})
    assert said.startswith("environment: SHOAL_?")
    assert "\n" not in said.encode().decode()
    assert len(told(caplog, **{f"SHOAL_{n}X": "" for n in range(500)})) == 100


def test_what_kubernetes_says_of_services_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """A pod gets these for every service of its namespace that was there before it."""
    for service, port in (("SHOAL", 6379), ("SHOAL_VALKEY", 6379), ("SHOAL_STORE", 80), ("SHOAL_RATE", 1)):
        address = f"tcp://10.0.0.11:{port}"
        one = {
            "SERVICE_HOST": "10.0.0.11",
            "SERVICE_PORT": str(port),
            "SERVICE_PORT_HTTP_ALT": str(port),
            "PORT": address,
            f"PORT_{port}_TCP": address,
            f"PORT_{port}_TCP_PROTO": "tcp",
            f"PORT_{port}_TCP_PORT": str(port),
            f"PORT_{port}_TCP_ADDR": "10.0.0.11",
            "PORT_53_UDP": "udp://10.0.0.11:53",
        }
        assert told(caplog, **{f"{service}_{name}": value for name, value in one.items()}) == []


def test_variables_that_are_no_settings_are_left_alone() -> None:
    others = ("SHOAL_STORE", "SHOAL_CONFIG", "SHOAL_JOB", "SHOAL_LOG", "SHOALS", "PATH")
    assert from_environ(**dict.fromkeys(others, "x")) == Settings()


def test_case_36_flags_and_spiders() -> None:
    assert message(from_flags, per_host=0) == (
        "flag per_host: 0 is not allowed; per_host must be a whole number, at least 1 or auto"
    )
    assert message(from_flags, per_host="two").startswith("flag per_host: 'two' is not allowed")
    assert message(from_flags, **{"per-host": "2"}) == (
        "flag: 'per-host' is not a setting; did you mean 'per_host'?"
    )
    assert message(load, None, {"rate": "2"}, {}, {}).startswith("spider: rate: '2' is not allowed")
    assert "did you mean 'deny'?" in message(load, None, {"denny": []}, {}, {})


@pytest.mark.parametrize("text", ["Authorization: secret", '{"Authorization": ["secret"]}', '["secret"]'])
def test_headers_may_hold_secrets_and_are_not_repeated(text: str) -> None:
    assert "secret" not in message(from_flags, headers=text)
    assert "secret" not in message(from_environ, SHOAL_HEADERS=text)


LINE_END = "has a line end, as text read from a file has one; no header may have that"
CONTROL = "has a control character or half a character; no header may"
NO_NAME = "is not the name of a header: one has ASCII letters, digits, - and _"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "headers",
            {"Authorization": "Bearer hunter2\n"},
            f"headers: the value of 'Authorization' {LINE_END}",
        ),
        ("headers", {"X": "hunter2\rY: 1"}, f"headers: the value of 'X' {LINE_END}"),
        ("headers", {"X": "hunter2\0"}, f"headers: the value of 'X' {CONTROL}"),
        ("headers", {"X": "hunter2\ud800"}, f"headers: the value of 'X' {CONTROL}"),
        ("headers", {"A B": "hunter2"}, f"headers: 'A B' {NO_NAME}"),
        ("headers", {"": "hunter2"}, f"headers: '' {NO_NAME}"),
        ("headers", {"Ü": "hunter2"}, f"headers: 'Ü' {NO_NAME}"),
        ("headers", {"A\n": "hunter2"}, f"headers: 'A\\n' {NO_NAME}"),
        ("headers", {"Authorization: hunter2": ""}, f"headers: 'Authorization' {NO_NAME}"),
        ("user_agent", "hunter2\nX: y", f"user_agent: its value {LINE_END}"),
        ("user_agent", "hunter2\x7f", f"user_agent: its value {CONTROL}"),
        (
            "session_headers",
            {"me": {"Cookie": "hunter2\n"}},
            f"session_headers: session 'me': the value of 'Cookie' {LINE_END}",
        ),
        ("session_headers", {"me": {"A B": "hunter2"}}, f"session_headers: session 'me': 'A B' {NO_NAME}"),
        (
            "host",
            {"a.b": {"headers": {"X": "hunter2\n"}}},
            f"[host.\"a.b\"] headers: the value of 'X' {LINE_END}",
        ),
        ("host", {"a.b": {"headers": {"X Y": "hunter2"}}}, f"[host.\"a.b\"] headers: 'X Y' {NO_NAME}"),
        (
            "proxies",
            {"api": {"headers": {"X-Key": "hunter2\n"}}},
            f"[proxies.api] headers: the value of 'X-Key' {LINE_END}",
        ),
        (
            "proxies",
            {"api": PoolSettings(headers={"X-Key": "hunter2\n"})},
            f"[proxies.api] headers: the value of 'X-Key' {LINE_END}",
        ),
        ("proxies", {"api": {"header_prefix": "X "}}, f"[proxies.api] header_prefix: 'X ' {NO_NAME}"),
        ("proxies", {"api": {"status_header": "é"}}, f"[proxies.api] status_header: 'é' {NO_NAME}"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_and_its_value_is_not(key: str, value: Any, said: str) -> None:
    """The first page would meet it otherwise, in every process. The usual one is a token with the line end of its
    file."""
    assert message(load, None, {key: value}, {}, {}) == f"spider: {said}"
    assert message(from_flags, **{key: value}).startswith("flag")


def test_headers_that_can_be_sent_are_taken() -> None:
    headers = {"X-A.b_1~": "Käse €\t\udce9", "Empty": ""}
    assert load(None, {"headers": headers, "session_headers": {"me": headers}}, {}, {}).headers == headers
    assert from_flags(user_agent="").user_agent == ""
    pools = {"api": {"header_prefix": "", "headers": {"X-Key": "${KEY}"}}}
    assert load(None, {"proxies": pools}, {}, {}).proxies == {
        "api": PoolSettings(header_prefix="", headers={"X-Key": "${KEY}"})
    }
    made = PoolSettings(urls=["http://a:1"], countries={"de": ["http://b:1"]}, cooldown=2.0)
    assert load(None, {"proxies": {"dc": made}}, {}, {}).proxies == {"dc": made}


TYPES = {field.name: inspect.type_info(field.type) for field in structs.fields(Settings)}
NUMBERS = [
    name
    for name, kind in TYPES.items()
    if "number" in describe(kind)
    and not isinstance(kind, inspect.DictType)
    and " at most " not in describe(kind)
]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [10**20, 1e308, 10**400, 10**5000], ids=["20", "308", "400", "5000"])
def test_every_number_has_an_upper_bound(key: str, value: float) -> None:
    """Otherwise the crawl ends with an OverflowError wherever such a number is first packed or waited for."""
    said = message(from_flags, **{key: [value] if key == "handle_status" else value})
    assert said.startswith(f"flag {key}: ")
    assert len(said) < 200


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("concurrency", "9,007,199,254,740,992"),
        ("per_host", "9,007,199,254,740,992"),
        ("depth", "9,007,199,254,740,992"),
        ("rate", "9,007,199,254,740,992"),
        ("grace", "3,153,600,000"),
        ("handler_timeout", "3,153,600,000"),
        ("keep_days", "36,500"),
    ],
)
def test_the_upper_bound_is_told_and_is_allowed(key: str, most: str) -> None:
    number = int(most.replace(",", ""))
    assert message(from_flags, **{key: number + 2}) == (
        f"flag {key}: {number + 2} is not allowed; {key} must be at most {most}"
    )
    assert getattr(from_flags(**{key: number}), key) == number


def test_numbers_in_tables_and_lists_have_upper_bounds() -> None:
    most = "must be at most 9,007,199,254,740,992"
    assert f"lane_caps {most}" in message(from_flags, lane_caps={"a": 10**20})
    assert f"handle_status {most}" in message(from_flags, handle_status=[404, 10**20])
    assert f"lanes {most}" in message(from_flags, lanes={"a": 1e308})
    assert f"per_host {most}" in message(from_flags, host={"a.b": {"per_host": 10**20}})
    assert "timeout must be at most 3,153,600,000" in message(from_flags, host={"a.b": {"timeout": 1e10}})
    assert "cooldown must be at most" in message(from_flags, proxies={"a": PoolSettings(cooldown=1e10)})


def test_a_number_with_thousands_of_digits(tmp_path: Path) -> None:
    assert "is not valid TOML" in message(from_toml, tmp_path, "concurrency = " + "9" * 5_000)
    assert message(from_flags, concurrency="9" * 5_000).startswith("flag concurrency: '999")


def test_long_values_are_cut() -> None:
    assert len(message(from_flags, rate="9" * 500 + "x")) < 200


def test_arrays_beyond_all_depth_are_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("hosts = " + "[" * 5_000)
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load(file, {}, {}, {})
    with pytest.raises(SettingsError, match="hosts must be a list of strings"):
        load(None, {}, {}, {"hosts": "[" * 5_000 + "]"})


# -- tables for hosts


def test_tables_for_hosts_are_put_together_key_by_key(tmp_path: Path) -> None:
    """A list or a table is replaced by a later layer; what an operator says of other hosts must not be."""
    (tmp_path / "shoal.toml").write_text(
        '[host."Shop.Example:443"]\nrate = 0.5\nheaders = {A = "1", B = "2"}\n[host."*.shop.example"]\nper_host = 1\n'
    )
    settings = load(
        None,
        {"host": {"shop.example": {"rate": 1, "timeout": 9, "headers": {"b": "3"}}}},
        {"SHOAL_HOST": '{"bücher.example:8080": {"robots": false, "pool": ""}}'},
        {"host": '{"shop.example": {"lane": "urgent"}}'},
    )
    where = "shoal.toml, spider, flag host"
    assert settings.host == {
        "shop.example": HostSettings(
            rate=1, timeout=9, lane="urgent", headers={"A": "1", "b": "3"}, where=where
        ),
        "*.shop.example": HostSettings(per_host=1, where="shoal.toml"),
        "xn--bcher-kva.example:8080": HostSettings(robots=False, pool="direct", where="SHOAL_HOST"),
    }


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[host."a.b"]\nrat = 1', "'rat' is not a setting of a host; did you mean 'rate'? there are rate,"),
        ('[host."a.b"]\nspeed = 1', "there are rate, per_host, timeout, headers, pool, robots, lane"),
        ('[host."a.b"]\nwhere = "x"', "'where' is not a setting of a host"),
        (
            '[host."a.b"]\nrate = -1',
            '[host."a.b"] rate: -1 is not allowed; rate must be a number, at least 0',
        ),
        ('[host."a.b"]\ntimeout = inf', '[host."a.b"] timeout: inf is not allowed'),
        ('[host."a.b"]\nper_host = 0', "per_host must be a whole number, at least 1"),
        ('[host."a.b"]\nrobots = "off"', "robots must be true or false"),
        ('[host."a.b"]\nlane = 1', "lane must be a string"),
        ('[host."*"]\nrate = 1', '[host."*"] is not a host: write a host as in shop.example'),
        ('[host."a.*"]\nrate = 1', "is not a host"),
        ('[host."*.127.0.0.1"]\nrate = 1', "an address has nothing below it"),
        ('[host."a.b/c"]\nrate = 1', "is not a host"),
        ('[host.""]\nrate = 1', "is not a host"),
        ("[host]\nrate = 1", '[host."rate"] must be a table'),
        (
            "host = 3",
            "host must be a table of tables with rate, per_host, timeout, headers, pool, robots, lane",
        ),
    ],
)
def test_case_36_tables_for_hosts(tmp_path: Path, table: str, words: str) -> None:
    said = message(from_toml, tmp_path, table)
    assert said.startswith(f"{tmp_path / 'my.toml'}: ")
    assert words in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "table",
    [
        '[host."a.b".headers]\nX = "hunter2\\nY: 1"',
        '[host."a.b".headers]\n"X Y" = "hunter2"',
        '[host."a.b".headers]\nX = ["hunter2"]',
        '[host."a.b"]\nheaders = "hunter2"',
        '[host."http://me:hunter2@a.b"]\nrate = 1',
    ],
)
def test_secrets_of_hosts_are_not_repeated(tmp_path: Path, table: str) -> None:
    assert "hunter2" not in message(from_toml, tmp_path, table)


def test_headers_of_hosts_are_not_shown() -> None:
    settings = load(None, {}, {}, {"host": {"a.b": {"headers": {"Authorization": "secret"}}}})
    assert repr(settings) == "Settings(host={'a.b': HostSettings(headers={'Authorization': '…'})})"


def test_there_may_be_so_many_tables_and_no_more() -> None:
    tables = {f"shop-{n}.example": {"rate": 1} for n in range(HOST_TABLES)}
    assert len(load(None, {"host": tables}, {}, {}).host) == HOST_TABLES
    assert "10,001 tables for hosts; at most 10,000" in message(
        load, None, {"host": {**tables, "one.more": {"rate": 1}}}, {}, {}
    )

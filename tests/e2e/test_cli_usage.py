"""What a person gets wrong ends in one line and exit code 2 (or 3), never in a traceback."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import shoal
from shoal.cli.suggestions import OTHER_WORDS
from shoal.cli.targets import as_one_url, as_url, read_targets
from shoal.errors import UsageError

Cli = Callable[..., tuple[int, str, str]]


def one_line(err: str) -> str:
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1, err
    assert err.startswith("shoal: ")
    return err


def test_a_wrong_command_line_does_not_repeat_a_password(cli: Cli) -> None:
    code, _, err = cli("status", "http://me:p@hunter2@a.example/", "redis://:hunter2@b.example")
    assert code == 2
    assert "b.example" in one_line(err)
    assert "hunter2" not in err


@pytest.mark.parametrize("where", ["at import", "in its start"])
def test_an_error_of_a_spider_does_not_repeat_a_password(cli: Cli, tmp_path: Path, where: str) -> None:
    fails = 'raise OSError("cannot reach postgresql://me:p@hunter2@db.example/x")'
    text = (
        f"from shoal import Spider\ndef start():\n    {fails}\n    yield\nspider = Spider('s', start=start)\n"
    )
    text += "@spider.handler\ndef page(page): ...\n"
    (tmp_path / "s.py").write_text(text if where == "in its start" else fails)
    code, _, err = cli(
        "crawl", str(tmp_path / "s.py"), "-o", str(tmp_path / "rows.jsonl"), "--store", str(tmp_path / "s.db")
    )
    assert code == 2
    assert "postgresql://db.example/x" in err
    assert "hunter2" not in err


# -- asking for help


@pytest.mark.parametrize(
    "argv",
    [[], ["crawl"], ["status"], ["dead"], ["dead", "list"], ["dead", "show"], ["dead", "replay"], ["dead", "drop"],
     ["fetch"], ["demo"], ["why"], ["hosts"], ["hosts", "show"], ["hosts", "block"], ["hosts", "unblock"],
     ["hosts", "set"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(cli: Cli, argv: Sequence[str], flag: str) -> None:
    code, out, err = cli(*argv, flag)
    assert (code, err) == (0, "")
    assert "Usage: shoal" in out


@pytest.mark.parametrize("argv", [[], ["dead"]], ids=["shoal", "shoal dead"])
def test_a_family_without_a_command_shows_its_help(cli: Cli, argv: Sequence[str]) -> None:
    code, out, err = cli(*argv)
    assert (code, err) == (0, "")
    assert "Commands" in out


def test_the_command_is_a_module_as_well(tmp_path: Path) -> None:
    """A crawl too, which runs in a child under a guardian: the crawl's words and exit code are those of the command."""
    command = (sys.executable, "-m", "shoal")
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    assert (asked.returncode, asked.stdout) == (0, f"shoal {shoal.__version__}\n"), asked.stderr
    wrong = subprocess.run(
        [*command, "crawl", "nothing.py"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert wrong.returncode == 2
    assert "nothing.py" in one_line(wrong.stderr)


def test_version(cli: Cli) -> None:
    assert cli("--version") == (0, f"shoal {shoal.__version__}\n", "")


def loaded(tmp_path: Path, *commands: Sequence[str]) -> set[str]:
    """What a process that runs these commands has loaded."""
    code = (
        f"import sys; from shoal.cli import run; codes = [run(command) for command in {commands!r}];"
        "print('codes', codes, '\\nloaded', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"codes {[0] * len(commands)} " in done.stdout, done.stderr
    return set(done.stdout.rpartition("\nloaded ")[2].split())


def test_a_command_loads_no_other(tmp_path: Path) -> None:
    asked = loaded(tmp_path, ["crawl", "--help"])
    assert "shoal.cli.crawl" in asked
    assert not {"shoal.cli.status", "shoal.cli.demo", "shoal.cli.hosts", "shoal.cli.suggestions"} & asked


def test_help_does_not_load_the_machinery(tmp_path: Path) -> None:
    heavy = {"aiohttp", "apsw", "selectolax", "ada_url", "protego", "uvloop", "asyncio"}
    assert not heavy & loaded(tmp_path, ["crawl", "--help"])


def test_whoever_fetches_nothing_does_not_load_the_http_client(tmp_path: Path) -> None:
    """It takes as long as all the rest of such a command."""
    url = "http://127.0.0.1:9/"
    given = [
        ["submit", url, "-j", "a"],
        ["add", "a", f"{url}2"],
        ["status"],
        ["why", url],
        ["hosts"],
        ["dead"],
    ]
    assert "aiohttp" not in loaded(tmp_path, *given)


# -- wrong words


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["crawl", "--nonsense"], "--nonsense"),
        (["crawl", "--depth", "deep", "example.com"], "--depth"),
        (["crawl"], "nothing to crawl: give URLs"),
        (["crawl", "ftp://example.com/"], "only http and https"),
        (["crawl", "mailto:me@example.com"], "mailto: cannot be crawled, only http and https"),
        (
            ["add", "job", "a.test", "--priority", str(2**31)],
            "is not in the range -2147483647<=x<=2147483647",
        ),
        (
            ["submit", "a.test", "--priority", str(2**70)],
            "is not in the range -2147483647<=x<=2147483647",
        ),
        (["add", "job", "mailto:me@example.com"], "mailto: cannot be crawled, only http and https"),
        (["crawl", "file:///etc/passwd"], "only http and https"),
        (["crawl", "http://"], "is not a URL"),
        (
            ["crawl", "http//example.com/"],
            "http//example.com/ is not a URL; did you mean http://example.com/?",
        ),
        (["crawl", "http:/example.com"], "did you mean http://example.com?"),
        (["crawl", "/no/such/urls.txt"], "there is no file /no/such/urls.txt"),
        (["fetch", "htps://example.com"], "did you mean https://example.com?"),
        (["why", "http:\\\\example.com"], "did you mean http://example.com?"),
        (["crawl", "http://exa mple/"], "is not a URL"),
        (["crawl", "http://a:99999/"], "is not a URL"),
        (["crawl", "a.py", "b.py"], "give one spider"),
        (["crawl", "a.py", "example.com"], "give one spider"),
        (["crawl", "a.py", "-i", "urls.txt"], "-i goes without one"),
        (["crawl", "missing.py"], "missing.py"),
        (["crawl", "no.such.module:spider"], "no.such.module"),
        (["crawl", "-i", "missing.txt"], "missing.txt: there is no such file"),
        (["crawl", "example.com", "--log-level", "loud"], "log level 'loud' is not known"),
        (["crawl", "example.com", "-s", "rate"], "-s rate: write it as key=value"),
        (["crawl", "example.com", "-s", "=3"], "write it as key=value"),
        (["crawl", "example.com", "-o", "no/such/dir/rows.jsonl"], "there is no directory no/such/dir"),
        (["crawl", "example.com", "-o", "."], "is a directory"),
        (["crawl", "example.com", "--summary", "no/such/dir/s.json"], "there is no directory"),
        (["dead", "show", "seven"], "ID"),
        (["dead", "list", "--since", "yesterday"], "--since 'yesterday' is not a time"),
        (["dead", "list", "--limit", "0"], "--limit 0: at least 1"),
        (["dead", "drop"], "say which dead letters to drop"),
        (["dead", "replay"], "say which dead letters to replay"),
        (["fetch"], "URL"),
        (["fetch", "gopher://example.com/"], "only http and https"),
        (["demo", "--seconds", "900"], "--seconds 900"),
        (["demo", "--processes", "0"], "--processes 0: at least 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_answered_in_one_line(cli: Cli, argv: Sequence[str], says: str) -> None:
    code, out, err = cli(*argv)
    assert says in one_line(err)
    assert (code, out) == (2, "")


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["crwl", "x"], "shoal crawl"),
        (["stats"], "shoal status"),
        (["runspider", "x.py"], "shoal crawl"),
        (["jobs"], "shoal status"),
        (["block", "a.test"], "shoal hosts block"),
        (["replay"], "shoal dead replay"),
        (["hosts", "shw"], "shoal hosts show"),
        (["example.com"], "shoal crawl example.com"),
        (["books.py"], "shoal crawl books.py"),
        (["http://me:secret@a.test/"], "shoal crawl http://a.test/"),
        (["crawl", "--max_pages", "3", "a.test"], "--max-pages"),
        (["crawl", "--rat=3", "a.test"], "--rate"),
        (["crawl", "--retry-base", "3", "a.test"], "-s retry_base=…"),
        (["rows", "--jsn", "a"], "--json"),
        (["rows", "--job", "a"], "shoal rows JOB"),
        (["nonsense"], ""),
        (["crawl", "--nonsense"], ""),
        (["crawl", "-Z"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_command_or_option_gets_one_suggestion(cli: Cli, argv: Sequence[str], meant: str) -> None:
    code, out, err = cli(*argv)
    assert (code, out) == (2, "")
    assert "secret" not in one_line(err)
    assert re.findall("did you mean (.*)[?] see ", err, re.IGNORECASE) == ([meant] if meant else [])


def test_every_suggested_command_exists(cli: Cli) -> None:
    for word, meant in OTHER_WORDS.items():
        code, _, err = cli(word)
        assert code == 2, f"{word} is a command: it needs no suggestion"
        assert f"did you mean shoal {meant}? see" in one_line(err)
        assert cli(*meant.split()[:2][: 1 if "--" in meant else 2], "--help")[0] == 0


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["-s", "colour=red"], "colour"),
        (["-s", "rate=fast"], "rate"),
        (["--rate", "-1"], "rate"),
        (["--concurrency", "0"], "concurrency"),
        (["--allow-network", "everything"], "allow_network"),
        (["--config", "missing.toml"], "missing.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("command", ["crawl", "fetch"])
def test_bad_settings_are_named(cli: Cli, command: str, argv: Sequence[str], says: str) -> None:
    if command == "fetch" and argv[0] in ("--rate", "--concurrency"):
        argv = ["-s", f"{argv[0].lstrip('-')}={argv[1]}"]
    code, _, err = cli(command, "http://127.0.0.1:9/", *argv)
    assert says in one_line(err)
    assert code == 2


@pytest.mark.parametrize(
    ("line", "says"), [("colour = 'red'", "colour"), ("rate = -1", "rate"), ("rate = ", "shoal.toml")]
)
def test_a_bad_settings_file_is_named(cli: Cli, tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "shoal.toml").write_text(line + "\n")
    code, _, err = cli("crawl", "http://127.0.0.1:9/")
    assert says in one_line(err)
    assert "shoal.toml" in err
    assert code == 2


def test_a_bad_environment_variable_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_RATE", "fast")
    code, _, err = cli("crawl", "http://127.0.0.1:9/")
    assert "SHOAL_RATE" in one_line(err)
    assert code == 2


@pytest.mark.parametrize(
    "argv", [["status"], ["dead", "list"], ["dead", "show", "1"], ["dead", "drop", "--all"]]
)
def test_a_missing_store_is_not_created(cli: Cli, tmp_path: Path, argv: Sequence[str]) -> None:
    code, out, err = cli(*argv)
    assert "no store at .shoal/shoal.db" in one_line(err)
    assert (code, out) == (3, "")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, out, err = cli("crawl", "http://127.0.0.1:9/", "--store", "file/shoal.db")
    assert "file/shoal.db" in one_line(err)
    assert (code, out) == (3, "")


def test_a_kind_of_store_that_does_not_exist(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("crawl", "http://127.0.0.1:9/", "--store", "mongo://localhost/")
    assert "mongo" in one_line(err)
    assert (code, out) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_repeated(cli: Cli) -> None:
    for url in ("ftp://me:secret@example.com/", "http://me:secret@exa mple/"):
        _, _, err = cli("crawl", url)
        assert "secret" not in one_line(err)


def test_a_bug_says_that_it_is_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("shoal.cli.targets.read_targets", broken)
    code, _, err = cli("crawl", "example.com")
    assert code == 1
    assert "ZeroDivisionError: oops" in err
    assert err.splitlines()[-1].startswith("shoal: this is a bug in Shoal; please report it")


def test_an_interrupt_is_not_a_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.cli.targets.read_targets", interrupted)
    assert cli("crawl", "example.com") == (130, "", "")


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("crawl", "shoal.engine.liveness"),
        ("status", "msgspec"),
        ("status", "shoal.engine.startup"),
        ("status", "shoal.cli.app"),
    ],
)
def test_an_interrupt_while_modules_are_imported_is_one_line(command: str, module: str) -> None:
    """As a KeyboardInterrupt, msgspec would swallow it and crash later."""
    program = f"""
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from shoal.cli import main
main([{command!r}])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "shoal: interrupted\n")


# -- targets


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("example.com", "https://example.com/"),
        ("example.com:8080/x", "https://example.com:8080/x"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("shop.localhost", "http://shop.localhost/"),
        ("127.0.0.1:9", "http://127.0.0.1:9/"),
        ("[::1]:8000/a", "http://[::1]:8000/a"),
        ("1.2.3.4.example.com", "https://1.2.3.4.example.com/"),
        ("HTTPS://Example.COM", "https://example.com/"),
        ("http://me:secret@example.com/", "http://example.com/"),
        ("example.com/?u=http://other.example/", "https://example.com/?u=http://other.example/"),
    ],
)
def test_a_scheme_may_be_left_out(word: str, url: str) -> None:
    assert as_url(word) == url


@pytest.mark.parametrize("word", ["books.py", "dir/books.py:spider", "package.module:spider", "books:spider"])
def test_spiders_are_told_from_urls(word: str) -> None:
    assert read_targets([word], None).spec == word


def test_a_word_that_could_be_both_is_the_spider_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in ("books", "books.main", "shops.books"):
        assert read_targets([word], None).urls == (f"https://{word}/",)
    Path("books.py").write_text("main = Spider('books')\nother: Spider = Spider('x')\ndef helper(): ...\n")
    Path("shops").mkdir()
    Path("shops/books.py").touch()
    assert not caplog.records
    specs = {
        "books": "books",
        "books.main": "books:main",
        "books.other": "books:other",
        "shops.books": "shops.books",
    }
    for word, spec in specs.items():
        assert read_targets([word], None).spec == spec
    assert caplog.records[1].message == (
        "books.main is taken for the spider books:main, which is here; for the site write https://books.main/"
    )
    for word in ("books.helper", "books.com", "shops.other", "https://books.main/", "books.main/"):
        assert read_targets([word], None).spec is None


def test_the_same_words_name_the_same_job(tmp_path: Path) -> None:
    first = read_targets(["http://a.example/", "b.example"], None)
    assert first.name == read_targets(["http://a.example/", "https://b.example/"], None).name
    assert re.fullmatch(r"a\.example-[0-9a-f]{6}", first.name)
    assert first.name != read_targets(["http://a.example/"], None).name
    listed = tmp_path / "urls.txt"
    listed.touch()
    assert re.fullmatch(r"urls-[0-9a-f]{6}", read_targets([], listed).name)


def test_a_file_of_urls_is_not_taken_for_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("urls.txt").touch()
    with pytest.raises(UsageError, match=r"use -i urls\.txt"):
        read_targets(["urls.txt"], None)


# -- standard input


def read_from(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets standard input be this text."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_dash_is_standard_input() -> None:
    dash = read_targets(["-"], None)
    assert (dash.urls, dash.input) == ((), "-")
    assert read_targets(["a.test", "-"], None).input == "-"
    assert read_targets(["-"], Path("-")) == dash
    with pytest.raises(UsageError, match=r"-i urls\.txt another list"):
        read_targets(["-"], Path("urls.txt"))


def test_the_url_of_fetch_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    read_from("# one page\n\n<a.test/x>\n", monkeypatch)
    assert as_one_url("-") == "https://a.test/x"
    for text, says in (("", "no URL"), ("a.test\nb.test\n", "several URLs")):
        read_from(text, monkeypatch)
        with pytest.raises(UsageError, match=says):
            as_one_url("-")

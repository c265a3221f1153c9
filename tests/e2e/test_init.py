"""`shoal init`: what it writes works at once, and nothing that is there is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.config import load
from shoal.spider.loading import load_spider

Cli = Callable[..., tuple[int, str, str]]
FILES = [
    ".gitignore",
    "README.md",
    "books.py",
    "pyproject.toml",
    "shoal.toml",
    "tests/pages/book.html",
    "tests/pages/book.json",
    "tests/pages/listing.html",
    "tests/pages/listing.json",
    "tests/test_books.py",
]


def files_in(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(path.relative_to(folder).as_posix() for path in found)


def test_a_project_in_a_new_folder(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("init", "my shop")
    assert (code, err) == (0, "")
    assert files_in(tmp_path / "my shop") == FILES
    assert "cd 'my shop'" in out
    assert "shoal try books.py" in out
    assert (tmp_path / "my shop" / "README.md").read_text().startswith("# my shop\n")


def test_a_project_here(cli: Cli, tmp_path: Path) -> None:
    code, out, _ = cli("init")
    assert code == 0
    assert files_in(tmp_path) == FILES
    assert "cd " not in out
    assert load_spider(str(tmp_path / "books.py")).name == "books"
    assert load(None, {}, {}, {}).rate == 2.0


def test_nothing_that_is_there_is_replaced(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / ".gitignore").write_text("*.log\n.shoal/")
    code, out, err = cli("init")
    assert code == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "pyproject.toml").read_text() == "[project]\n"
    assert "kept     README.md" in out
    assert 'pythonpath = ["."]' in err
    ignored = (tmp_path / ".gitignore").read_text().splitlines()
    assert ignored[:2] == ["*.log", ".shoal/"]
    assert ignored.count(".shoal/") == 1
    assert "*.jsonl" in ignored


@pytest.mark.parametrize("there", ["books.py", "tests/test_books.py", "shoal.toml"])
def test_a_folder_with_such_files_is_left_alone(cli: Cli, tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    code, out, err = cli("init")
    assert (code, out) == (2, "")
    assert there in err
    assert len(err.splitlines()) == 1
    assert files_in(tmp_path) == [there]


def test_a_file_is_no_folder(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")
    code, _, err = cli("init", "shop")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "shop" in err


# -- another spider


def test_a_spider_for_a_site(cli: Cli, tmp_path: Path) -> None:
    cli("init")
    code, out, err = cli("init", "--spider", "lamps", 'lamps.example/a\'b?q="c"')
    assert (code, err) == (0, "")
    assert "shoal try lamps.py" in out
    spider = load_spider(str(tmp_path / "lamps.py"))
    assert (spider.name, spider.start) == ("lamps", "https://lamps.example/a'b?q=%22c%22")
    assert files_in(tmp_path) == sorted([*FILES, "lamps.py", "tests/test_lamps.py"])
    before = (tmp_path / "lamps.py").read_text()
    assert cli("init", "--spider", "lamps", "other.example")[0] == 2
    assert (tmp_path / "lamps.py").read_text() == before


@pytest.mark.parametrize(
    ("name", "url", "says"),
    [
        ("my-shop", "a.example", "book_shop"),
        ("../shop", "a.example", "book_shop"),
        ("class", "a.example", "book_shop"),
        ("json", "a.example", "json_spider"),
        ("shoal", "a.example", "shoal_spider"),
        ("books", "a.example", "books.py is there already"),
        ("bazaar", "ftp://a.example", "only http and https"),
    ],
)
def test_what_is_no_spider(cli: Cli, tmp_path: Path, name: str, url: str, says: str) -> None:
    cli("init")
    code, out, err = cli("init", "--spider", name, url)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert says in err
    assert files_in(tmp_path) == FILES


def test_a_spider_needs_a_project(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("init", "--spider", "shop", "a.example")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "run shoal init first" in err
    assert files_in(tmp_path) == []


# -- the project's own checks. Its tests are run in test_session.py, its types are checked by links in tests/typing


def test_nothing_is_wrong_with_the_spiders(cli: Cli) -> None:
    cli("init")
    assert cli("init", "--spider", "lanterns", "lamps.example")[0] == 0
    for spider in ("books.py", "lanterns.py"):
        code, out, err = cli("check", spider)
        assert out, err
        assert (code, out.splitlines()[-1]) == (0, "nothing is wrong, 0 warnings")


def test_what_is_written_is_clean(cli: Cli, tmp_path: Path) -> None:
    assert cli("init")[0] == 0
    assert cli("init", "--spider", "torches", f"https://lamps.example/{'long/' * 30}")[0] == 0
    for command in (["check", "--extend-select", "E,F,I,UP,B"], ["format", "--check"]):
        checked = [sys.executable, "-m", "ruff", *command, "."]
        done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

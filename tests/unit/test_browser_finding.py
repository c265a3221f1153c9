"""Which browser is found, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.fetch.browser import executable
from shoal.fetch.browser.executable import (
    available,
    find_chromium,
    find_full,
    find_headless_shell,
    is_headless_shell,
    why_not,
)
from shoal.settings import Settings
from shoal.testing import install_chromium


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    monkeypatch.delenv("SHOAL_BROWSER_PATH", raising=False)
    monkeypatch.setattr(executable, "_APPS", ("/Applications/None.app",))
    executable._usual.cache_clear()
    yield
    executable._usual.cache_clear()


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_none() -> None:
    settings = Settings()
    assert find_chromium(settings) is None
    assert not available(settings)
    line = why_not(settings)
    assert "\n" not in line
    for way in (
        "apt install chromium or chromium-headless-shell",
        "brew install",
        "playwright install chromium",
        "browser_path",
    ):
        assert way in line


FULL = ["chromium", "chromium-browser", "google-chrome-stable", "microsoft-edge"]
SHELLS = ["chromium-headless-shell", "chrome-headless-shell", "headless_shell", "headless-shell"]


@pytest.mark.parametrize("name", [*FULL, *SHELLS])
def test_the_usual_names(tmp_path: Path, name: str) -> None:
    path = program(tmp_path / "bin" / name)
    assert find_chromium(Settings()) == path
    assert available(Settings())


def test_chromium_comes_first(tmp_path: Path) -> None:
    program(tmp_path / "bin/google-chrome")
    path = program(tmp_path / "bin/chromium")
    assert find_chromium(Settings()) == path


@pytest.mark.parametrize(
    "full", ["bin/microsoft-edge", "home/.cache/ms-playwright/chromium-1/chrome-linux/chrome"]
)
def test_a_full_browser_comes_before_a_headless_shell(tmp_path: Path, full: str) -> None:
    shell = program(tmp_path / "bin/chromium-headless-shell")
    assert find_chromium(Settings()) == find_headless_shell() == shell
    assert find_full() is None
    path = program(tmp_path / full)
    executable._usual.cache_clear()
    assert find_chromium(Settings()) == find_full() == path
    assert find_headless_shell() == shell


@pytest.mark.parametrize(
    "name", ["chrome-linux/headless_shell", "chrome-headless-shell-linux64/chrome-headless-shell"]
)
def test_the_shell_that_playwright_has_downloaded(tmp_path: Path, name: str) -> None:
    path = program(tmp_path / "home/.cache/ms-playwright/chromium_headless_shell-1200" / name)
    assert find_chromium(Settings()) == find_headless_shell() == path


def test_a_headless_shell_is_known_by_its_name(tmp_path: Path) -> None:
    link = tmp_path / "chromium"
    for name in (*FULL, *SHELLS):
        link.unlink(missing_ok=True)
        link.symlink_to(program(tmp_path / "bin" / name))
        assert is_headless_shell(tmp_path / "bin" / name) == is_headless_shell(link) == (name in SHELLS)


def test_what_playwright_has_downloaded(tmp_path: Path) -> None:
    cache = tmp_path / "home/.cache/ms-playwright"
    program(cache / "chromium-1100/chrome-linux/chrome")
    path = program(cache / "chromium-1200/chrome-linux64/chrome")
    assert find_chromium(Settings()) == path


def test_playwrights_other_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers-0"))
    path = program(tmp_path / "browsers-0/chromium-1200/chrome-linux/chrome")
    assert find_chromium(Settings()) == path


def test_the_one_that_is_named(tmp_path: Path) -> None:
    program(tmp_path / "bin/chromium")
    path = program(tmp_path / "home/own chrome")
    assert find_chromium(Settings(browser_path=str(path))) == path
    assert find_chromium(Settings(browser_path="~/own chrome")) == path


def test_one_that_is_named_but_not_there(tmp_path: Path) -> None:
    program(tmp_path / "bin/chromium")
    settings = Settings(browser_path="/nowhere/chrome")
    assert find_chromium(settings) is None
    assert why_not(settings).startswith("browser_path: /nowhere/chrome is not a program")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin/chromium")
    monkeypatch.setattr(executable, "_has_playwright", lambda: False)
    assert not available(Settings())
    assert "pip install 'shoal[browser]'" in why_not(Settings())


def test_the_tests_own_way_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install_chromium.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    assert install_chromium.main() == 1
    assert "apt install chromium" in capsys.readouterr().err
    monkeypatch.delenv("CI")
    assert install_chromium.main() == 0
    path = program(tmp_path / "own")
    monkeypatch.setenv("SHOAL_BROWSER_PATH", str(path))
    assert install_chromium.main() == 0
    assert capsys.readouterr().out == f"{path}\n"


APT_GET = """#!/bin/sh
echo "$DEBIAN_FRONTEND $@" >> "{calls}"
echo chatter
if read answer; then echo "asked for $answer" >> "{calls}"; fi
case " $* " in
  *" update "*) echo "no network" >&2; exit 100;;
  *" install "*) {install};;
esac
"""


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A stand-in, on the path of one who may install: `install` is what it does then."""
    monkeypatch.setattr(install_chromium.os, "geteuid", lambda: 0)
    monkeypatch.setenv("CI", "true")

    def put(install: str) -> Path:
        calls = tmp_path / "calls"
        program(tmp_path / "bin/apt-get").write_text(APT_GET.format(calls=calls, install=install))
        return calls

    return put


def installs(*paths: Path) -> str:
    """What apt-get does."""
    return "; ".join(f"echo > '{path}'; /bin/chmod +x '{path}'" for path in paths)


def test_both_are_installed_even_if_the_lists_are_old(
    tmp_path: Path, apt_get: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    full, shell = tmp_path / "bin/chromium", tmp_path / "bin/chromium-headless-shell"
    calls = apt_get(installs(full, shell))
    assert install_chromium.main() == 0
    out, err = capfd.readouterr()
    assert out == f"{full}\n{shell}\n"
    assert "no network" in err
    assert "chatter" not in err
    update, install = calls.read_text().splitlines()
    assert update.startswith("noninteractive --quiet=2 ")
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends chromium chromium-headless-shell")


def test_one_is_installed_where_the_other_is_not_known(
    tmp_path: Path, apt_get: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "bin/chromium"
    calls = apt_get(f"case $* in *shell) echo 'E: no such package' >&2; exit 100; esac; {installs(full)}")
    assert install_chromium.main() == 0
    assert capfd.readouterr().out == f"{full}\n"
    assert calls.read_text().splitlines()[-1].endswith(" install --yes --no-install-recommends chromium")


@pytest.mark.parametrize("name", ["chromium", "chromium-headless-shell"])
def test_where_there_is_one_nothing_is_installed(
    tmp_path: Path, apt_get: Callable[[str], Path], name: str
) -> None:
    program(tmp_path / "bin" / name)
    calls = apt_get("exit 0")
    assert install_chromium.main() == 0
    assert not calls.exists()


def test_one_that_cannot_be_installed(
    apt_get: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    apt_get("echo 'E: no such package' >&2; exit 100")
    assert install_chromium.main() == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "E: no such package" in err
    assert err.splitlines()[-1].startswith("there is no Chromium")
    monkeypatch.delenv("CI")
    assert install_chromium.main() == 0


def test_nothing_is_installed_in_place_of_the_one_that_is_named(
    apt_get: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = apt_get("exit 0")
    monkeypatch.setenv("SHOAL_BROWSER_PATH", "/nowhere/chrome")
    assert install_chromium.main() == 1
    assert "browser_path: /nowhere/chrome" in capfd.readouterr().err
    assert not calls.exists()

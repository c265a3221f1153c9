"""`shoal guess`: looks at a few pages of a site, and writes a TOML spider."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.errors import PageMissing, UsageError

if TYPE_CHECKING:
    from shoal.develop.guessing.guess_file import Guess
    from shoal.settings import Settings

_STDOUT = "-"


def guess(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...",
            help="Pages of one site: its home page, a listing, a product. https:// may be left out.",
        ),
    ],
    output: Annotated[
        str,
        options.option(
            "--output",
            "-o",
            value="FILE",
            text="The file to write; -: standard output.",
            default="the host's name.toml",
        ),
    ] = "",
    force: Annotated[bool, options.switch("--force", text="Replace the file, if it is there.")] = False,
    cache: options.PageCache = None,
    no_cache: options.NoCache = False,
    offline: options.Offline = False,
    no_robots: options.NoRobots = False,
    allow_network: options.AllowNetwork = None,
    pairs: options.Pairs = None,
    config: options.Config = None,
    log_level: options.LogLevel = None,
) -> None:
    """Look at a few pages of a site, and write a TOML spider for you to edit: where its products are listed, and what
    can be read from their pages."""
    from shoal.config import load
    from shoal.develop.guessing.guess_file import written
    from shoal.engine.event_loop import run_loop
    from shoal.terminal.guess_view import print_guess

    options.set_up_logging(log_level, usual="info")
    addresses = _addresses(urls)
    target = _target(output, addresses[0], force=force)
    given = options.flags(pairs, robots=False if no_robots else None, allow_network=allow_network or None)
    settings = load(config, {}, os.environ, given)
    found = run_loop(_guess(addresses, settings, options.page_cache(cache, no_cache), offline=offline))
    text = written(found)
    if target is None:
        sys.stdout.write(text)
    else:
        _write(target, text, force=force)
    print_guess(found, str(target) if target is not None else "")


def _addresses(words: list[str]) -> list[str]:
    from shoal.cli.targets import as_one_url

    urls = [as_one_url(word) for word in words]
    hosts = {url.split("/", 3)[2].lower() for url in urls}
    if len(hosts) > 1:
        raise UsageError(
            f"the pages are of several sites ({', '.join(sorted(hosts))}): guess one after another"
        )
    return urls


def _target(output: str, url: str, *, force: bool) -> Path | None:
    """Looked at before anything is fetched."""
    if output == _STDOUT:
        return None
    path = Path(output or f"{_name(url)}.toml")
    if path.suffix != ".toml":
        raise UsageError(f"-o {path}: the file of a spider ends in .toml")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already: --force replaces it, -o FILE takes another name")
    return path


def _name(url: str) -> str:
    """Of the site: its host, without www."""
    host = url.split("/", 3)[2].rpartition("@")[2].lower().removeprefix("www.")
    return "".join(sign if sign.isalnum() else "-" for sign in host.partition(":")[0]).strip("-") or "site"


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{path} is there already: --force replaces it, -o FILE takes another name"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


async def _guess(urls: list[str], settings: Settings, cache: Path | None, *, offline: bool) -> Guess:
    from shoal.develop.guessing.fetching_pages import SitePages
    from shoal.develop.guessing.site_guess import Explorer

    pages = SitePages(urls, settings, cache, offline=offline)
    found = await Explorer(pages.fetch).guess(urls, _name(urls[0]))
    if found is None:
        raise PageMissing(
            urls[0],
            f"no list of pages was found there{pages.missing_text()}; give the URL of a list or of a product, too",
        )
    return found

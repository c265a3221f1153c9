"""Opens TOML spiders by their address: FILE.toml for all sites of a file, FILE.toml:site for one."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path

from shoal.errors import SpiderError
from shoal.limits import TOML_FILE
from shoal.spider.declared.compiling import file_spider, site_spider
from shoal.spider.declared.reading_file import SpiderFile, is_settings, read_file
from shoal.spider.declared.site_checks import site_problems
from shoal.spider.declared.whole_file import whole_problems
from shoal.spider.spider import Spider, shown


def split_address(spec: str) -> tuple[Path, str]:
    """FILE.toml and the name of a site, or ""."""
    end = spec.find(".toml:")
    return (Path(spec[: end + 5]), spec[end + 6 :]) if end >= 0 else (Path(spec), "")


def declared_spider(spec: str) -> Spider:
    """Raises SpiderError with file, line and column of the first thing that is wrong."""
    path, site = split_address(spec)
    file = open_file(path)
    if not site:
        return file_spider(file)
    if not file.has_sites or site not in file.sites:
        raise no_site(file, site)
    return site_spider(file, file.sites[site])


def declared_spiders(path: str) -> list[Spider]:
    """The spider of all sites, and that of each: what a worker serves."""
    file = open_file(Path(path))
    if not file.has_sites:
        return [file_spider(file)]
    each = [site_spider(file, site) for site in file.sites.values()]
    return each if any(whole_problems(file)) else [file_spider(file), *each]


def open_file(path: Path) -> SpiderFile:
    from shoal.spider.loading import on_path

    on_path(path.resolve().parent)  # hooks and functions lie beside it
    file = read_file(path)
    file.check(site_problems(file))
    return file


def holds_spider(path: Path) -> bool:
    """Whether a file of a folder is a spider: other TOML files may lie there, too."""
    try:
        if path.stat().st_size > TOML_FILE:
            return False
        document = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    return not is_settings(document) and bool({"handler", "site"} & document.keys())


def no_site(file: SpiderFile, name: str) -> SpiderError:
    """The error for a site that the file does not have."""
    where = shown(str(file.path))
    if not file.has_sites:
        return SpiderError(f"{where} is one site and has no others: give {where} alone")
    near = get_close_matches(name, file.sites, 1)
    names = ", ".join(list(file.sites)[:20]) + (", …" if len(file.sites) > 20 else "")
    meant = f"did you mean {where}:{near[0]}?" if near else f"it has {names}"
    return SpiderError(f"no site {name!r} in {where}; {meant}")

"""What the words after `shoal crawl` mean: URLs, a spider, a file of URLs."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import host_key
from shoal.admit.sending import has_scheme, typed_url, unwrapped
from shoal.cli import is_closed
from shoal.engine.guardian import guarded
from shoal.errors import UsageError
from shoal.spider.loading import SpiderSource
from shoal.spider.spider import bounded_lines
from shoal.spider.start_tables import is_table

log = logging.getLogger("shoal")

# FILE.py, FILE.py:name, FILE.toml:site, package.module:name. A port is a number, so host:8080 is not one of these.
_SPIDER = re.compile(r".+\.py(:\w+)?|.+\.toml(:.+)?|[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
STDIN = "-"


def spider_source(word: str, arguments: Sequence[str] | None = None) -> SpiderSource:
    """The spider that a word of the command line means, with its arguments (`-a`)."""
    spec = spider_meant(word)
    if spec is None:
        raise UsageError(f"{word} is no spider: give FILE.py, FILE.py:name, FILE.toml or module:name")
    return SpiderSource(name="", spec=spec, arguments=tuple(arguments or ()))


def show_arguments(words: Sequence[str]) -> None:
    """Prints what `-a` may be given for the spider among the words: `--help-args`."""
    from shoal.spider.loading import find_spider
    from shoal.terminal.spider_arguments import print_arguments

    spec, _ = split_spider(words)
    if spec is None:
        raise UsageError(
            "--help-args: name the spider whose arguments you mean: FILE.py, FILE.py:name or module:name"
        )
    print_arguments(find_spider(spec), spec)


def read_targets(
    words: Sequence[str],
    input_file: Path | None,
    arguments: Sequence[str] | None = None,
    *,
    sitemaps: Sequence[str] = (),
    feeds: Sequence[str] = (),
    column: str = "",
) -> SpiderSource:
    """The source of the crawl. The same words give the same name, so the same command resumes."""
    words, input_file = take_stdin(words, input_file)
    spec, others = split_spider(words)
    if arguments and spec is None:
        raise UsageError("-a is an argument of a spider: name one, FILE.py, FILE.py:name or module:name")
    if spec is not None:
        if others:
            raise UsageError(f"{spec} is a spider: give one spider, or any number of URLs, not both")
        if input_file is not None:
            raise UsageError(f"{spec} is a spider and has start URLs of its own; -i goes without one")
        if sitemaps or feeds:
            raise UsageError(
                f"{spec} is a spider and has a start of its own: write start=Sitemap(…) there; --sitemap and --feed go "
                "without one"
            )
        return SpiderSource(name="", spec=spec, arguments=tuple(arguments or ()))
    if not words and input_file is None and not sitemaps and not feeds:
        raise UsageError(
            "nothing to crawl: give URLs, a spider (FILE.py or module:name), -i FILE or --sitemap URL;"
            " see shoal crawl --help"
        )
    urls = tuple(as_url(word) for word in words)
    listed = listed_in(input_file, column)
    others = (*(f"sitemap {url}" for url in sitemaps), *(f"feed {url}" for url in feeds))
    return SpiderSource(
        name=_name(urls, listed, _stdin_name, others),
        urls=urls,
        input=None if listed is None else str(listed),
        feeds=source_name(urls, listed, others),
        sitemaps=tuple(sitemaps),
        feed_urls=tuple(feeds),
        column=column,
    )


def take_stdin(words: Sequence[str], input_file: Path | None) -> tuple[list[str], Path | None]:
    """The words without "-", and the list: "-" among the words is standard input, as in -i -."""
    others = [word for word in words if word != STDIN]
    if len(others) == len(words):
        return others, input_file
    if input_file is not None and str(input_file) != STDIN:
        raise UsageError(f"- is standard input, and -i {input_file} another list: give one of them")
    return others, Path(STDIN)


def listed_in(input_file: Path | None, column: str = "") -> Path | None:
    """The file that -i names, or Path("-") for standard input."""
    if column and (input_file is None or not is_table(input_file)):
        raise UsageError("--url-column goes with -i and a table: a .csv, .tsv, .jsonl or .parquet file")
    if input_file is None:
        return None
    if str(input_file) == STDIN:
        if is_closed("stdin"):
            raise UsageError("-i -: standard input is closed; name a file, or leave it open")
        return input_file
    if not input_file.is_file():
        raise UsageError(f"-i {input_file}: there is no such file")
    return input_file.resolve()


def split_spider(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The address of the one spider, if there is one, and the other words."""
    specs = {word: spec for word in words if (spec := spider_meant(word)) is not None}
    if len(specs) > 1:
        raise UsageError(f"{' and '.join(specs)} are spiders: give one spider, and any number of URLs")
    return next(iter(specs.values()), None), [word for word in words if word not in specs]


def spider_meant(word: str) -> str | None:
    """The address of the spider that a word means; None: it is a URL. FILE.py, FILE.py:name and module:name are
    spiders. So is a plain word, if a Python file here is meant by it: `books`, `shops.books`, or `books.main` for what
    books.py calls `main`."""
    word = unwrapped(word)
    if has_scheme(word):
        return None
    if _SPIDER.fullmatch(word):
        return word
    if not _DOTTED.fullmatch(word):
        return None
    *package, name = word.split(".")
    if Path(*package, f"{name}.py").is_file():
        found = word
    elif package and _assigns(Path(*package[:-1], f"{package[-1]}.py"), name):
        found = f"{'.'.join(package)}:{name}"
    else:
        return None
    log.warning(
        "%s is taken for the spider %s, which is here; for the site write https://%s/", word, found, word
    )
    return found


def _assigns(path: Path, name: str) -> bool:
    """Whether the file gives something that name, as far as its text shows."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    # A function counts if it says that it returns a spider.
    function = rf"def {name}\((?:(?!^\S).)*?\)\s*->[^:\n]*Spider"
    return re.search(rf"^(?:{name}\s*(:[^=\n]*)?=|{function})", text, re.MULTILINE | re.DOTALL) is not None


def as_url(word: str) -> str:
    """The URL meant by a word of the command line."""
    word = unwrapped(word)
    if not has_scheme(word) and Path(word).is_file():
        raise UsageError(f"{word} is a file: use -i {word} to crawl the URLs in it")
    if word.startswith(("/", "./", "../", "~/")) and not word.startswith("//"):
        raise UsageError(f"there is no file {word}; if it is a URL, write https:// before it")
    return typed_url(word)


def as_one_url(word: str) -> str:
    """The URL meant by the only word; "-" is the one URL on standard input."""
    if word != STDIN:
        return as_url(word)
    if is_closed("stdin"):
        raise UsageError("-: standard input is closed; give the URL")
    lines = (line.strip() for line in bounded_lines(sys.stdin))
    urls = list(islice((line for line in lines if line and not line.startswith("#")), 2))
    if len(urls) != 1:
        found = "no URL" if not urls else "several URLs"
        raise UsageError(
            f"-: there is {found} on standard input, and one is wanted; shoal crawl - takes any number"
        )
    return as_url(urls[0])


def source_name(urls: Sequence[str], listed: Path | None, others: Sequence[str] = ()) -> str:
    """What a list is called among the sources of a job. Standard input has one name, whatever it is: it is always read
    from its beginning, so no position can be taken for another list's."""
    return _name(urls, listed, lambda: STDIN, others)


def _name(
    urls: Sequence[str], listed: Path | None, stdin: Callable[[], str], others: Sequence[str] = ()
) -> str:
    """`others`: sitemaps and feeds."""
    from_stdin = str(listed) == STDIN
    first = next(iter([*urls, *(word.partition(" ")[2] for word in others)]), "")
    stem = host_key(first) if first else "stdin" if from_stdin else Path(listed or "").stem
    given = [*sorted(map(Canonicaliser(), urls)), stdin() if from_stdin else str(listed or "")]
    words = "\n".join([*given, *sorted(others)])
    return f"{stem}-{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:6]}"


def _stdin_name() -> str:
    """What standard input is: a file has a name of its own; a pipe is another one in every command, but the same for
    a process that takes over from one that died."""
    about = os.fstat(0)
    command = 0 if stat.S_ISREG(about.st_mode) else os.getppid() if guarded() is not None else os.getpid()
    return f"{about.st_dev} {about.st_ino} {command}"

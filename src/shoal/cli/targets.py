"""What the words after `shoal crawl` mean: URLs, a spider, a file of URLs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from shoal.admit.canonical import Canonicaliser
from shoal.admit.identity import host_key
from shoal.admit.typed import has_scheme, typed_url
from shoal.errors import UsageError
from shoal.source import SpiderSource

# FILE.py, FILE.py:name, package.module:name. A port is a number, so host:8080 is not one of these.
_SPIDER = re.compile(r".+\.py(:\w+)?|[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def read_targets(words: Sequence[str], input_file: Path | None) -> SpiderSource:
    """The source of the crawl. The same words give the same name, so the same command resumes."""
    spiders = [word for word in words if _is_spider(word)]
    if spiders:
        if len(words) > 1:
            raise UsageError(f"{spiders[0]} is a spider: give one spider, or any number of URLs, not both")
        if input_file is not None:
            raise UsageError(f"{spiders[0]} is a spider and has start URLs of its own; -i goes without one")
        return SpiderSource(name="", spec=spiders[0])
    if not words and input_file is None:
        raise UsageError(
            "nothing to crawl: give URLs, a spider (FILE.py or module:name) or -i FILE; see shoal crawl --help"
        )
    if input_file is not None and not input_file.is_file():
        raise UsageError(f"-i {input_file}: there is no such file")
    urls = tuple(as_url(word) for word in words)
    listed = str(input_file.resolve()) if input_file else None
    return SpiderSource(name=_name(urls, listed), urls=urls, input=listed)


def split_spider(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """One spider, if there is one, and the other words."""
    spiders = [word for word in words if _is_spider(word)]
    if len(spiders) > 1:
        raise UsageError(f"{' and '.join(spiders)} are spiders: give one, and any number of URLs")
    return (spiders[0] if spiders else None), [word for word in words if word not in spiders]


def _is_spider(word: str) -> bool:
    return _SPIDER.fullmatch(word) is not None and not has_scheme(word)


def as_url(word: str) -> str:
    """The URL meant by a word of the command line."""
    if not has_scheme(word) and Path(word).is_file():
        raise UsageError(f"{word} is a file: use -i {word} to crawl the URLs in it")
    return typed_url(word)


def _name(urls: Sequence[str], listed: str | None) -> str:
    stem = host_key(urls[0]) if urls else Path(listed or "").stem
    words = "\n".join([*sorted(map(Canonicaliser(), urls)), listed or ""])
    return f"{stem}-{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:6]}"

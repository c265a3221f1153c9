"""What a worker does not let a job decide: everyone who can write to the store can make a job.

A job chooses among what the worker has: its spiders, its proxies, the places its rows may go. What would be an import,
a file, a private network, or an address that gets a secret is granted by the worker's own settings alone.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from shoal.admit.identity import host_key
from shoal.admit.scope import Scope
from shoal.admit.sending import sent_url
from shoal.errors import TrustError, UsageError
from shoal.frontier import is_local
from shoal.settings import POLICIES, Settings
from shoal.sink.outputs import Output, Place, read_output, with_rest
from shoal.spider.spider import Spider

# Headers that tell nothing about whoever sends them. Any other may be a key.
_HARMLESS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "dnt",
        "from",
        "pragma",
        "priority",
        "referer",
        "te",
        "upgrade-insecure-requests",
        "user-agent",
    }
)


def trusts_store(settings: Settings, store: str) -> bool:
    """Whether jobs may decide everything. With "auto": those in a file that nobody but this user writes to."""
    if settings.trust != "auto":
        return settings.trust == "store"
    if not is_local(store):
        return False
    try:
        state = os.stat(store)
    except OSError:
        return True  # in memory, or still to be made
    return state.st_uid == os.geteuid() and not state.st_mode & 0o022


def check_settings(noted: Settings, mine: Settings) -> None:
    """Refuses settings of a job that only the worker's own may contain."""
    known = {*POLICIES, *mine.policies}
    for name in noted.policies:
        if name not in known:
            raise _refusal(f"policies: {name!r} would be imported", "policies")
    for name in noted.plugins:
        if name not in mine.plugins:
            raise _refusal(f"plugins: {name!r} would be imported", "plugins")
    if noted.transport not in ("", mine.transport):
        raise _refusal(f"transport: {noted.transport!r} would be imported", "transport")
    if noted.challenge_check not in ("", mine.challenge_check):
        raise _refusal(f"challenge_check: {noted.challenge_check!r} would be imported", "challenge_check")
    if noted.files not in ("", mine.files):
        raise TrustError(
            f"files: downloaded files would go to {noted.files!r}; set files in the settings of the workers, or their"
            ' trust = "store"'
        )
    for network in noted.allow_network:
        if network not in mine.allow_network:
            raise _refusal(f"allow_network: {network!r} is a network of this worker's", "allow_network")
    if noted.trust_start and not mine.trust_start:
        raise TrustError(
            "trust_start: private hosts of a start file or function would be reached; set it in the spider or in the"
            ' settings of the workers, or set their trust = "store"'
        )


def _refusal(what: str, key: str) -> TrustError:
    return TrustError(f'{what}; add it to {key} in the settings of the workers, or set their trust = "store"')


# -- where rows go


def own_output(output: Output, job: str, mine: Settings, environ: Mapping[str, str]) -> list[str]:
    """The output that a job names, if the worker's settings allow it. A database's address is taken from them."""
    try:
        places = read_output(output, stored=True)
    except UsageError as error:
        raise _refusal(f"its rows would go to the file {output!r} ({error})", "outputs") from None
    if not places:
        raise TrustError("the job names no place for its rows: submit it again with -o FILE")
    own = [replace(one, target=_own_target(one, mine, environ)) for one in with_rest(places, job)]
    return [place.text for place in own[: len(places)]]


def _own_target(place: Place, mine: Settings, environ: Mapping[str, str]) -> str:
    if place.kind == "database":
        return _own_database(place.target, mine.outputs, environ)
    allowed = [entry for entry in mine.outputs if not entry.startswith(("postgres:", "postgresql:"))]
    if place.is_here and any(_matches(place.target, entry) for entry in allowed):
        return place.target
    # *.jsonl is for files: it would also match every bucket that the worker's keys open.
    buckets = [entry for entry in allowed if "://" in entry]
    if place.kind == "objects" and any(fnmatchcase(place.target, entry) for entry in buckets):
        return place.target
    if place.kind == "archive":
        raise _refusal(f"its archive would be {place.target!r}", "outputs")
    what = "the file " if place.kind == "file" else ""
    raise _refusal(f"its rows would go to {what}{place.text!r}", "outputs")


def _matches(output: str, entry: str) -> bool:
    """Whether a path, with links followed, matches the entry. A relative entry is below the worker's folder, and
    matches hidden files and folders only if it names them."""
    here = os.path.realpath(".")
    path = os.path.realpath(output)
    pattern = entry + "*" if entry.endswith("/") else entry
    if not os.path.isabs(pattern):
        inside = path.startswith(os.path.join(here, ""))
        hidden = inside and any(part.startswith(".") for part in Path(os.path.relpath(path, here)).parts)
        if not inside or (hidden and not pattern.startswith(".") and "/." not in pattern):
            return False
        pattern = os.path.join(glob.escape(here), pattern)
    return fnmatchcase(path, pattern)


def _own_database(output: str, entries: list[str], environ: Mapping[str, str]) -> str:
    from shoal.sink.postgres.address import read_address

    job = read_address(output)
    for entry in (one for one in entries if one.startswith(("postgres:", "postgresql:"))):
        own = read_address(entry)
        theirs, ours = urlsplit(job.key), urlsplit(own.key)
        if (job.shown, theirs.query) == (own.shown, ours.query) and theirs.username in (None, ours.username):
            return entry
    parts = urlsplit(job.key)
    hosts = parts.netloc.rpartition("@")[2]
    if parts.query in ("", "history=1") and hosts in _hosts_of(environ):
        return output
    raise _refusal(f"its rows, and this worker's password, would go to {job.shown}", "outputs")


def _hosts_of(environ: Mapping[str, str]) -> set[str]:
    """How an address may name the database of the worker's own environment."""
    host, port = environ.get("PGHOST", ""), environ.get("PGPORT", "5432")
    return {"", host, f"{host}:{port}"} if host else {""}


# -- whom secrets are sent to


def own_reach(spider: Spider, mine: Settings) -> Callable[[str], bool] | None:
    """Which URLs this worker may ask for with the headers it has; None: any. Tasks come from the store, so the hosts
    are those that the spider's code and the worker's settings name."""
    if not _has_secrets(mine) or mine.any_host:
        return None
    starts = [host_key(url) for url in map(sent_url, spider.start_urls_known()) if url]
    if not starts and not mine.hosts:
        raise TrustError(
            "this worker has headers that may be secret, and nothing says which hosts they are for: name hosts in the "
            'spider or in the settings of the workers, or set their trust = "store"'
        )
    scope = Scope.of(mine, starts)
    return lambda url: scope.off_site(url) is None


def _has_secrets(mine: Settings) -> bool:
    sent = [name for headers in (mine.headers, *mine.session_headers.values()) for name in headers]
    return any(name.lower() not in _HARMLESS and not name.lower().startswith("sec-") for name in sent)

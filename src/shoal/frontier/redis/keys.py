"""Every key of a shard. All keys begin with the shard's tag, so that one script may use them all.

`docs/valkey.md` says what each holds and what it costs. A name that ends with a colon is a prefix of many keys.
"""

from __future__ import annotations

from hashlib import blake2b

from shoal.model import page_host

LAYOUT = 6  # grows when keys change in a way that older versions cannot read; how they are moved is in upgrading.py

NAMES = {
    "META": "facts",  # hash: layout, time, counters for ids and tokens, number of this shard and of all
    "METABEFORE": "meta",  # what META was up to layout 4; now a string, on which scripts of that time fail at once
    "UPGRADE": "upgrade",  # string: the process that changes the layout of this shard; expires if it is silent
    "JOBS": "jobs",  # hash: name → number
    "JOB": "job:",  # + number, hash: spec, state, all counters; pending tasks by lane; sources of start URLs (home)
    "JOBHOSTS": "jobhosts:",  # + number, hash: host → tasks admitted
    "WORDS": "words:",  # + number, hash: handler → small number (home shard)
    "SEEN": "seen:",  # + number:bucket, set of fingerprints
    "MERGED": "merged:",  # + number, hash: fingerprint of a page that redirected → the URL that it was merged into
    "BLOOM": "bloom:",  # + number:block, bits: what the job has seen, if it need not be exact
    "ROWS": "rows:",  # + number:bucket, set of keys of rows
    "RESERVED": "reserved:",  # + number, hash: key of a row → task that writes it (several shards)
    "JOURNALS": "journals:",  # + number, hash: result file → committed length; 'turn of ' it → the last to ask for that
    "DEAD": "dead:",  # + number, hash: id → letter
    "DEADAT": "deadat:",  # + number, sorted set: id by time of death
    "PAST": "past",  # hash: name of a job that was pruned → what is left of it (home shard)
    "PASTAT": "pastat",  # sorted set: those names by when they were pruned (home shard)
    "DROPPED": "dropped",  # set: numbers of jobs that are being cleared away
    "LANES": "lanes",  # hash: lane → small number
    "HOSTS": "hosts",  # hash: host → valve, version, lengths of its lists
    "STATES": "states",  # hash: host → what the policies keep
    "SITES": "sites",  # hash: domain → its only host, or its number if it has several
    "DOMAINS": "domains",  # hash: number of a domain → what its hosts share
    "DUE": "due:",  # + line, sorted set: hosts that have tasks, by when they may be hit
    "LINE": "line:",  # + line, sorted set: hosts that may be hit now, by their places
    "CROWDS": "crowds:",  # + line, sorted set: domains that hosts wait for, by when to look at them
    "CROWD": "crowd:",  # + line:domain, sorted set: hosts that wait for their domain, by their places
    "PLACES": "places:",  # + line, hash: host → its place when it was last served
    "QUEUE": "q:",  # + line:priority:host, list of pending tasks
    "DELAYED": "delayed",  # sorted set: hosts by when their first delayed task is due
    "LATER": "later:",  # + host, sorted set: delayed tasks, with line and priority, by when they are due
    "LEASES": "leases",  # hash: token → lease
    "HELD": "held:",  # + worker, sorted set: tokens of its leases by their deadlines
    "EXTENDED": "extended",  # up to layout 4
    "HOLDERS": "holders",  # sorted set: workers by a time before which no lease of theirs runs out
    "ALIVE": "alive",  # sorted set: workers by when they count as gone (home shard)
    "STATUS": "status",  # hash: worker → last sign of life (home shard)
    "SLEEPERS": "sleepers:",  # + group, sorted set: processes that want more, by when they last got something
    "SLEEPS": "sleeps:",  # + process, string: its group, which is the lines that it wants tasks of
    "WATCH": "watch",  # hash: group → when its watcher claims, and which process that is
    "NOTES": "notes",  # hash: key → version and value (home shard)
    "CALL": "call:",  # + caller, string: number and answer of its last call; gone after an hour, or with its process
    "OUT": "out:",  # + shard, list of what is on its way to that shard
    "KEPT": "kept:",  # + shard, sorted set: what has arrived there, by its number in the sequence; gone after a while
    "OUTS": "outs",  # sorted set: shards that something is on its way to, by since when
    "SYNCED": "synced",  # string: written to learn when the disk has all that was written before
}

HOME = 0  # the shard that has what exists once: job numbers, start cursors, notes, workers


def tag(prefix: str, shard: int) -> str:
    """KEYS[1] of every script on the shard. A cluster hashes what the braces hold."""
    return f"{{{prefix}:{shard}}}"


def wake_channel(prefix: str, process: str = "") -> str:
    """The channel with news of jobs for all; or the one that tells a process when to claim."""
    return f"{prefix}:wake:{process}" if process else f"{prefix}:wake"


# Public suffixes of two labels with very many registered names. Without them all shops of one hoster would be in one
# shard. Not from the public suffix list: the shard of a host must not change with a new version of the list.
OWNED_BELOW = frozenset(
    f"{name}.{parent}"
    for parent, names in {
        "uk": "co org ac gov me",
        "au": "com net org edu gov",
        "nz": "co org",
        "za": "co org",
        "br": "com net org gov",
        "ar": "com",
        "mx": "com",
        "co": "com",
        "pe": "com",
        "ve": "com",
        "ec": "com",
        "uy": "com",
        "jp": "co ne or ac go",
        "kr": "co or",
        "cn": "com net org gov edu",
        "tw": "com org edu",
        "hk": "com",
        "sg": "com",
        "my": "com",
        "ph": "com",
        "vn": "com",
        "id": "co",
        "th": "co",
        "in": "co net org",
        "pk": "com",
        "bd": "com",
        "tr": "com org gov",
        "il": "co org",
        "sa": "com",
        "eg": "com",
        "ng": "com",
        "ke": "co",
        "ua": "com",
        "pl": "com",
        "pt": "com",
        "es": "com",
        "gr": "com",
        "cy": "com",
        "io": "github gitlab",
        "dev": "pages workers fly",
        "app": "netlify vercel web",
        "com": "firebaseapp herokuapp onrender blogspot myshopify wixsite",
        "net": "cloudfront azurewebsites",
    }.items()
    for name in names.split()
)


def shard_key(host: str) -> str:
    """The same for all hosts of a registrable domain, so that they are in one shard: as a rule, the last two labels."""
    host = page_host(host)  # items of its pages are where they are
    name = host.partition(":")[0].rstrip(".")
    labels = name.rsplit(".", 3)[-3:]
    if host.startswith("[") or len(labels) < 2 or labels[-1].isdigit():
        return host
    ending = ".".join(labels[-2:])
    return ".".join(labels) if ending in OWNED_BELOW else ending


def shard_of(host: str, shards: int) -> int:
    """The shard of a host and all its tasks. Stored data depends on it, so it must never change."""
    if shards == 1:
        return 0
    data = shard_key(host).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") % shards

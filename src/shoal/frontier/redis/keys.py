"""Every key of a shard. All begin with the shard's tag, so that one script may touch them all.

`docs/valkey.md` says what each holds and what it costs. A name that ends with a colon is the beginning of many keys.
"""

from __future__ import annotations

from hashlib import blake2b

LAYOUT = 2  # grows when keys change in a way that older versions cannot read

NAMES = {
    "META": "meta",  # hash: time, counters for ids and tokens, number of this shard and of all
    "JOBS": "jobs",  # hash: name → number
    "JOB": "job:",  # + number, hash: spec, state, counters; pending tasks by lane
    "JOBHOSTS": "jobhosts:",  # + number, hash: host → tasks admitted
    "WORDS": "words:",  # + number, hash: handler → small number (home shard)
    "SEEN": "seen:",  # + number:bucket, set of fingerprints
    "BLOOM": "bloom:",  # + number:block, bits: what the job has seen, if it need not be exact
    "ROWS": "rows:",  # + number:bucket, set of keys of rows
    "RESERVED": "reserved:",  # + number, hash: key of a row → task that writes it (several shards)
    "JOURNALS": "journals:",  # + number, hash: result file → committed length
    "DEAD": "dead:",  # + number, hash: id → letter
    "DEADAT": "deadat:",  # + number, sorted set: id by time of death
    "DROPPED": "dropped",  # set: numbers of jobs that are being cleared away
    "LANES": "lanes",  # hash: lane → small number
    "HOSTS": "hosts",  # hash: host → valve, version, lengths of its lists
    "STATES": "states",  # hash: host → what the policies keep
    "DUE": "due:",  # + line, sorted set: hosts that have tasks, by when they may be hit
    "LINE": "line:",  # + line, sorted set: hosts that may be hit now, by their places
    "PLACES": "places:",  # + line, hash: host → its place when it was last served
    "QUEUE": "q:",  # + line:priority:host, list of pending tasks
    "DELAYED": "delayed",  # sorted set: hosts by when their first delayed task is due
    "LATER": "later:",  # + host, sorted set: delayed tasks by when they are due
    "LEASES": "leases",  # hash: token → lease
    "HELD": "held:",  # + worker, set of tokens
    "EXTENDED": "extended",  # hash: worker → last token when its leases were last extended, and until when
    "HOLDERS": "holders",  # sorted set: workers by a time before which no lease of theirs runs out
    "ALIVE": "alive",  # sorted set: workers by when they count as gone (home shard)
    "STATUS": "status",  # hash: worker → last sign of life (home shard)
    "NOTES": "notes",  # hash: key → version and value (home shard)
    "CALL": "call:",  # + caller, string: number and answer of its last call; gone after a day
    "OUT": "out:",  # + shard, list of what is on its way to that shard
    "OUTS": "outs",  # sorted set: shards that something is on its way to, by since when
}

HOME = 0  # the shard that keeps what exists once: job numbers, start cursors, notes, workers


def tag(prefix: str, shard: int) -> str:
    """KEYS[1] of every script on the shard. A cluster hashes what the braces hold."""
    return f"{{{prefix}:{shard}}}"


def wake_channel(prefix: str) -> str:
    return f"{prefix}:wake"


def shard_of(host: str, shards: int) -> int:
    """Where a host and all its tasks live. Stored data depends on it, so this must never change."""
    if shards == 1:
        return 0
    return (
        int.from_bytes(blake2b(host.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % shards
    )

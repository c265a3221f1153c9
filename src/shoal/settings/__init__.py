"""Every setting, in one place: name, type, default and meaning.

A setting has the same name in `shoal.toml`, in the environment (`SHOAL_` + upper case), in `Spider(...)`, after
`-s` and in docs/settings.md. Later layers win: defaults < shoal.toml < the spider < environment < flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field

from shoal import __version__
from shoal.text import MASK

# No number and no time is larger: every store and every timer can keep these. Without such bounds, 1e308 seconds or
# 10**20 pages would end a crawl with an OverflowError wherever one first computes with them.
MOST = 2**53  # what Lua and JSON still count exactly
LONGEST_DAYS = 36_500
LONGEST = LONGEST_DAYS * 86_400  # seconds
COMMON_BOUNDS = frozenset({MOST, LONGEST, LONGEST_DAYS})

Int = Annotated[int, Meta(ge=-MOST, le=MOST)]
PositiveInt = Annotated[int, Meta(ge=1, le=MOST)]
Count = Annotated[int, Meta(ge=0, le=MOST)]  # 0 lifts the limit
Number = Annotated[float, Meta(ge=0, le=MOST)]
PositiveNumber = Annotated[float, Meta(gt=0, le=MOST)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=LONGEST)]
Days = Annotated[float, Meta(ge=0, le=LONGEST_DAYS)]
PositiveDays = Annotated[float, Meta(gt=0, le=LONGEST_DAYS)]
Share = Annotated[float, Meta(gt=0, le=1)]

# Names the program and where to read about it, so that a site's owner knows who it is.
USER_AGENT = f"Shoal/{__version__} (+https://pypi.org/project/shoal/)"

BROWSER = "browser"  # the lane whose pages are opened in a browser
WEIGHTS: Mapping[str, float] = {"urgent": 8, "normal": 4, "discovery": 2, BROWSER: 1}  # of the lanes

BackpressureRule = Literal[
    "queue_full",
    "queue_growth",
    "host_429",
    "latency",
    "retries",
    "sink",
    "backlog",
    "machine",
    "proxies",
    "store",
]
PoolStrategy = Literal["scored", "round_robin", "random", "least_used", "sticky"]
GatewayError = Literal["auth", "quota", "limit", "error", "site"]
RefererPolicy = Literal[
    "none",
    "forms",
    "same-origin",
    "origin",
    "strict-origin",
    "origin-when-cross-origin",
    "strict-origin-when-cross-origin",
]
ResourceType = Literal["image", "media", "font", "stylesheet", "script", "xhr", "fetch", "websocket", "other"]
MetaField = Literal["url", "fetched_at", "job", "handler", "record", "cached", "item"]
RowField = Literal[
    "h1",
    "headings",
    "text",
    "word_count",
    "content_hash",
    "outlinks",
    "images",
    "hreflang",
    "meta",
    "robots",
    "redirects",
    "links",  # another name for outlinks
    "all",
]
ROW_FIELDS: tuple[str, ...] = tuple(name for name in get_args(RowField) if name not in ("links", "all"))
ExtractKind = Literal["product", "article", "event", "recipe", "job", "breadcrumb", "text", "markdown"]
ChallengeKind = Literal["captcha", "bot_wall", "rate_wall", "login_wall", "empty_shell"]

# Never stored and never shown. (A worker's pool is no secret, but it is local, too.)
SECRET = frozenset(
    {
        *(
            "headers",
            "output",
            "outputs",
            "plugin_options",
            "proxies",
            "proxy",
            "session_headers",
            "session_key",
            "webhook",
            "webhook_secret",
        ),
        "worker_pool",
    }
)

# What jobs may write to, if a worker does not say: rows, and neither settings nor stores.
_OUTPUTS = ("*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.csv", "*.csv.gz", "*.csv.zst", "*.tsv", "*.parquet")

ARGUMENT_VARIABLE = "SHOAL_ARG_"  # before the names of variables that hold secret arguments of spiders

POLICIES = ("rate", "concurrency", "breaker", "timeout", "budget")


class HostSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Settings for some hosts that replace the general ones of the same names. None: not set."""

    rate: Number | None = None
    per_host: PositiveInt | None = None
    timeout: PositiveSeconds | None = None  # for every request, whatever the host's latency
    headers: dict[str, str] = {}  # besides those that every host gets
    pool: str | None = None  # "direct" is none
    robots: bool | None = None
    lane: str | None = None  # for requests that name none
    where: str = ""  # where it was set: shoal.toml, a spider. Not a key of a table

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in HOST_KEYS} | {"headers": masked(self.headers)}
        shown = [f"{name}={value!r}" for name, value in given.items() if value not in (None, {})]
        return f"HostSettings({', '.join(shown)})"


HOST_KEYS = tuple(name for name in HostSettings.__struct_fields__ if name != "where")


class PoolSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A pool of proxies: `[proxies.NAME]`. What is None is as the general setting says."""

    urls: list[str] = []  # addresses, or file:PATH, env:NAME to find them in
    countries: dict[str, list[str]] = {}  # addresses by the country that they are in
    country: str = ""  # that {country} in an address stands for, if a request asks for none
    strategy: PoolStrategy | None = None
    cooldown: PositiveSeconds | None = None
    cost: Number | None = None  # of a request, in any unit
    cost_per_gb: Number = 0.0  # … and of 10^9 bytes received
    # -- a service that fetches pages, instead of proxies
    gateway: str = ""  # its address, with {url}, and {country}, {session}, {render} if it wants them
    headers: dict[str, str] = {}  # sent to it
    header_prefix: str | None = None  # before the names of a page's own headers; None: it takes none
    status_header: str = ""  # the header of its answers with the status of the page
    url_header: str = ""  # … with the URL of the page, after redirects
    cost_header: str = ""  # … with what the answer cost, times `cost`
    errors: dict[str, GatewayError] = {}  # what statuses of its own mean

    def __repr__(self) -> str:
        return f"PoolSettings({MASK})"  # addresses have passwords


POOL_KEYS = PoolSettings.__struct_fields__


def masked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with masked values."""
    return dict.fromkeys(headers, MASK)


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a crawl, as docs/settings.md lists them."""

    # -- how fast
    concurrency: PositiveInt = 64  # pages worked on at once; several processes share them
    waiting_per_slot: Count = 32  # pages besides that only wait for a slow server, for each of these
    # Requests in flight per host, in the whole crawl; "auto": as many as the rate needs, from 2 to 16.
    per_host: PositiveInt | Literal["auto"] = "auto"
    rate: Number = 2.0  # requests per second and host; 0 lifts the limit
    burst: PositiveInt = 1  # requests a host may get at once after a quiet spell
    # Of all hosts of a registrable domain together, once there are two; 0 lifts the limit.
    domain_rate: Number | None = None  # requests per second; unset: five times `rate`
    per_domain: Count | None = (
        None  # requests in flight, in the whole crawl; unset: four times `per_host`, or 8
    )
    processes: PositiveInt = 1  # worker processes on this machine

    # -- hosts that need something else
    host: dict[str, HostSettings] = {}  # by host, or by "*.example.com" for all below it

    # -- lanes
    lanes: dict[str, PositiveNumber] = {}  # weights, besides or instead of the built-in ones
    lane_caps: dict[str, PositiveInt] = {}  # pages in flight per lane and process
    serve: list[str] = []  # lanes that this process takes tasks from; empty: all

    # -- how far
    depth: Count | None = None  # links followed from a start URL; unset: no limit
    max_pages: Count = 0  # pages done in the whole job
    max_pages_per_host: Count = 0  # URLs admitted per host
    max_links: PositiveInt = 10_000  # links taken from one page
    hosts: list[str] = []  # hosts (and their subdomains) to stay on; empty: those of the start URLs
    any_host: bool = False  # follow links to any host
    allow: list[str] = []  # regular expressions: a URL must match one
    deny: list[str] = []  # regular expressions: a URL must match none
    dedupe: Literal["exact", "bloom"] = "exact"  # how URLs that were seen are remembered
    dedupe_capacity: PositiveInt = 10_000_000  # with bloom: for how many URLs
    dedupe_expires: str = ""  # such as "7d": how long a page that is done stays known; "": for ever
    trap_repeats: Count = 3  # the same path segment (or pair) this often means a trap
    max_url_length: PositiveInt = 2_000
    tracking_params: list[str] = []  # query parameters that make no other page, besides the built-in list
    hash_routes: bool = False  # "#/cart" and "#!cart" name pages of their own

    # -- manners
    user_agent: str = USER_AGENT
    robots: bool = True  # obey robots.txt (RFC 9309) and Crawl-delay
    robots_meta: bool = False  # obey noindex and nofollow: <meta name="robots">, X-Robots-Tag
    rel_nofollow: bool = False  # do not follow links with rel="nofollow"
    robots_noarchive: bool = False  # pages that ask for noarchive are not archived
    canonical: Literal["ignore", "follow", "merge"] = "ignore"  # what <link rel="canonical"> leads to
    hreflang: bool = False  # follow <link rel="alternate" hreflang>: the page in other languages
    max_crawl_delay: Seconds = 60.0  # a longer Crawl-delay is cut to this
    headers: dict[str, str] = {}  # sent with every request
    cookies: bool = True
    referer: RefererPolicy = (
        "forms"  # which requests name the page that made them; "forms": all but GET and HEAD
    )
    allow_network: list[str] = []  # private networks (CIDR) that may be reached
    trust_start: bool = False  # start URLs from files and functions may be private, as typed ones may

    # -- one request
    dns_timeout: PositiveSeconds = 5.0  # for one name
    dns_servers: list[str] = []  # addresses, with or without a port; empty: those of the system
    connect_timeout: PositiveSeconds = 10.0
    read_timeout: PositiveSeconds = 20.0  # silence on the socket
    total_timeout: PositiveSeconds = 60.0
    min_rate: Number = 100.0  # bytes a second, over 5 s; 0 lifts the limit
    max_body: PositiveInt = 10 * 1024 * 1024  # decoded bytes
    output: list[str] = []  # where rows go, if no -o is given; see docs/outputs.md
    columns: dict[str, list[str]] = {}  # the first columns of CSV and TSV, by kind of item
    csv_formulas: Literal["keep", "escape"] = "keep"  # "escape": an apostrophe before what is a formula
    csv_bom: bool = False  # CSV and TSV begin with a byte-order mark, by which Excel knows UTF-8
    files: str = ""  # the folder of downloaded files; "": files/ beside the results
    max_file: PositiveInt = 1024 * 1024 * 1024  # bytes of a downloaded file
    file_timeout: PositiveSeconds = 3600.0  # for one request for a file
    max_redirects: Count = 10
    handle_status: list[Int] = []  # error statuses that go to the handler all the same

    # -- pages that are visited again and again
    revisit: str = ""  # when: "1h", "auto" or "auto 10m-7d", as often as they change; "": never
    revisit_min: str = "5m"  # with auto: never sooner
    revisit_max: str = "30d"  # … and never later
    revisit_budget: Count = 0  # requests a day and host for pages visited before; 0: what its limits allow
    once: bool = False  # the crawl ends when no page is due, though some wait for their next visit
    changes_ignore: list[str] = []  # fields of items that make no change, such as a time
    history_keep: str = ""  # how long databases keep old versions of rows: "90d"; "": for ever

    # -- rows that may be broken
    quality: Literal["hold", "warn", "off"] = "hold"  # what is done with rows that are not as they were

    # -- rows
    row_fields: list[RowField] = []  # what rows of a crawl without code have besides; "all": everything
    extract: list[ExtractKind] = []  # what a crawl without code writes instead of a row a page
    max_text: PositiveInt = 200_000  # characters of a page's text in a row
    row_meta: bool | list[MetaField] = False  # where each row is from, as fields _url, _fetched_at …

    # -- the archive of what was fetched
    archive: str = ""  # its folder; "": nothing is archived
    archive_compression: Literal["gzip", "zstd"] = "gzip"  # of its WARC files
    archive_file_size: PositiveInt = 1024 * 1024 * 1024  # bytes after which a new one is begun
    archive_secrets: bool = False  # cookies and credentials are archived, too
    cache: bool = False  # pages that the archive has are not fetched
    cache_age: Seconds = 0.0  # … unless they are older than this; 0: however old they are
    cache_refresh: list[str] = []  # … unless their URL is like one of these; * stands for anything
    offline: bool = False  # nothing is fetched: pages that the cache does not have are given up

    # -- failure
    max_attempts: PositiveInt = 5  # fetches of one URL before it is buried
    retry_base: PositiveSeconds = 1.0  # backoff: random in 0 … base * 2^(attempt - 1)
    retry_cap: PositiveSeconds = 300.0
    retry_after_cap: PositiveSeconds = 3600.0  # a longer Retry-After is cut to this
    snapshot_bytes: Count = 16 * 1024  # of the last body, kept with a dead letter

    # -- control
    policies: list[str] = field(default_factory=lambda: list(POLICIES))  # or "module:Class"
    min_timeout: PositiveSeconds = 2.0  # a host's own timeout is never shorter
    first_timeout: PositiveSeconds = 20.0  # for a host whose latency is not known
    breaker_failures: PositiveInt = 5  # in a row, and the host is left alone for a while
    breaker_rate: PositiveNumber = 0.5  # or this share of its last 20 requests; above 1: never
    breaker_cooldown: PositiveSeconds = 5.0  # before one request probes it; doubled by every failed probe
    breaker_cooldown_cap: PositiveSeconds = 300.0
    breaker_probes: PositiveInt = 6  # failed probes in a row before the host is given up
    breaker_give_up: PositiveSeconds = 3600.0  # before a host that was given up may be probed again
    retry_budget: Number = 0.3  # retries per first attempt
    retry_budget_floor: Count = 10  # retries that are allowed in any case

    # -- backpressure
    backpressure: list[BackpressureRule] = field(default_factory=lambda: list(get_args(BackpressureRule)))
    high_water: PositiveInt = 20_000  # pending tasks above which discovery and feeding pause, until half
    # Share of the store's memory limit above which discovery, feeding and new jobs wait. Halfway from there to the
    # limit nothing is claimed any more: what is in flight finds room for its links.
    store_high_water: PositiveNumber = 0.8
    memory_limit: Count = 0  # bytes per process; 0: a process's share of 80 % of the machine or container
    max_growth: PositiveNumber = 2.0  # URLs found for every page that is done
    max_429_share: Share = 0.05  # of recent fetches
    max_slowdown: Annotated[float, Meta(gt=1, le=MOST)] = 2.0  # times the usual latency of the same hosts
    max_retry_share: Share = 0.5  # of recent fetches that must be repeated
    max_sink_lag: PositiveSeconds = 1.0  # that finished pages wait to be stored
    max_backlog: PositiveInt = 256 * 1024**2  # bytes of rows that wait on the disk to be uploaded
    max_loop_lag: PositiveSeconds = 0.25  # that the event loop is late
    max_file_share: Share = 0.8  # of the files that a process may have open
    max_proxy_error_share: Share = 0.3  # of recent fetches that a proxy failed

    # -- what a store keeps of jobs that have ended; 0 lifts a limit
    keep_jobs: Count = 100  # the latest jobs without dead letters
    keep_days: Days = 30.0  # … and for how long
    keep_dead_jobs: Count = 300  # the latest with dead letters
    keep_dead_days: Days = 90.0
    keep_letter_days: Days = 90.0  # dead letters of any job

    # -- webhooks (docs/webhooks.md)
    webhook: str | list[str] = ""  # addresses that changes are sent to; ${NAME} is a variable
    webhook_secret: str | list[str] = ""  # signs what is sent; several while one replaces another
    webhook_days: PositiveDays = 3.0  # for which a delivery that fails is tried again

    # -- runs again and again, by `shoal submit`
    every: str = ""  # "30m", "1d"
    cron: str = ""  # cron's five fields, in UTC; "": neither

    # -- challenges
    challenges: list[ChallengeKind] = field(default_factory=lambda: list(get_args(ChallengeKind)))
    challenge_check: str = ""  # "module:function", asked besides the built-in signs
    challenge_delay: PositiveSeconds = 60.0  # before a challenged page is tried again; doubled every time
    challenge_routes: list[str] = []  # then tried through these, in turn: "lane:NAME" or "pool:NAME"

    # -- plugins (docs/hooks.md)
    plugins: list[str] = []  # "module:Class", or the name of one that is installed
    plugin_options: dict[str, dict[str, Any]] = {}  # by that word: what its constructor is given
    transport: str = ""  # "module:Class" that fetches pages, by the built-in transport or without it

    # -- routes
    # Pools: addresses of proxies, or file:PATH, env:NAME to find them in; or a table with these and more.
    proxies: dict[str, list[str] | PoolSettings] = {}
    proxy: str = ""  # the one that requests go through, by address or name, if no pool is named
    pool: str = ""  # that requests go through, unless they say otherwise; empty: none
    worker_pool: str = ""  # that every request of this process goes through, whatever it says
    fallback: list[str] = []  # pools by preference; "direct" is none. A host that refuses one gets the next
    pool_strategy: PoolStrategy = "scored"
    pool_costs: dict[str, Annotated[float, Meta(ge=0)]] = {}  # of a request through each pool, in any unit
    pool_cooldown: PositiveSeconds = 30.0  # before a failed or banned proxy is tried again; doubles
    session_requests: Count = 0  # requests of one session before it is begun anew
    session_age: Seconds = 0.0  # … and its age; 0 lifts either limit
    session_key: str = ""  # cookies in the store are encrypted with it; empty: they are not
    session_headers: dict[str, dict[str, str]] = {}  # sent with every request of the session of that name

    # -- the browser lane
    browser_path: str = ""  # of a Chromium; empty: it is looked for
    browser_tabs: PositiveInt = 4  # pages that a process has open at once
    browser_wait: str = "quiet"  # before a page counts as complete: "load", "quiet", or a CSS selector
    browser_block: list[ResourceType] = field(default_factory=lambda: ["image", "media", "font"])
    browser_pages: PositiveInt = 200  # after so many a browser is replaced by a fresh one
    browser_memory: Count = 2 * 1024**3  # bytes of a browser, and it is replaced; 0 lifts the limit
    escalate: bool = True  # pages that are empty without scripts, or challenged, go to the browser lane

    # -- HTTP/2
    http2: bool = False  # speak HTTP/2 where a host offers it
    http2_hosts: list[str] = []  # … to these hosts (and their subdomains) only; empty: to all

    # -- whom a worker trusts
    trust: Literal["auto", "store", "self"] = "auto"  # "store": jobs decide everything; see runtime/trust.py
    outputs: list[str] = field(default_factory=lambda: [*_OUTPUTS])  # where jobs may write to

    # -- the machinery
    lease: PositiveSeconds = 60.0  # a worker that shows no sign of life for this long loses its tasks
    grace: Seconds = 20.0  # to finish in-flight pages after SIGTERM or Ctrl-C
    settle_delay: Seconds = 0.03  # results are committed together, at most this late
    upload_delay: Seconds = 0.5  # rows for an object store wait for others, at most this long
    handler_timeout: PositiveSeconds = 60.0
    handler_warn: PositiveSeconds = 1.0  # a handler that blocks the loop for this long is named in the log

    @property
    def lane_weights(self) -> dict[str, float]:
        """Every lane there is, with its weight."""
        return {**WEIGHTS, **self.lanes}

    def __repr__(self) -> str:
        """What differs from the defaults, without the secrets."""
        shown = [
            f"{name}={'…' if name in SECRET else repr(value)}"
            for name in self.__struct_fields__
            if (value := getattr(self, name)) != getattr(_DEFAULTS, name)
        ]
        return f"Settings({', '.join(shown)})"


_DEFAULTS = Settings()

"""The settings as keyword arguments, so that editors complete them and type checkers find a misspelt one.

The names and types are those of `settings/__init__.py`, without bounds; a test compares the two. That module also says
what each of them means.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from shoal.settings import (
    BackpressureRule,
    ChallengeKind,
    ExtractKind,
    HostSettings,
    MetaField,
    PoolStrategy,
    RefererPolicy,
    ResourceType,
    RowField,
)


class CrawlSettings(TypedDict, total=False):
    """Settings that `shoal.run` and `shoal.crawl` take."""

    concurrency: int
    waiting_per_slot: int
    per_host: int | Literal["auto"]
    rate: float
    burst: int
    domain_rate: float | None
    per_domain: int | None
    processes: int
    host: dict[str, dict[str, Any]] | dict[str, HostSettings]
    lanes: dict[str, float]
    lane_caps: dict[str, int]
    serve: list[str]
    depth: int | None
    max_pages: int
    max_pages_per_host: int
    max_links: int
    hosts: list[str]
    any_host: bool
    allow: list[str]
    deny: list[str]
    dedupe: Literal["exact", "bloom"]
    dedupe_capacity: int
    dedupe_expires: str
    trap_repeats: int
    max_url_length: int
    tracking_params: list[str]
    hash_routes: bool
    user_agent: str
    robots: bool
    robots_meta: bool
    rel_nofollow: bool
    robots_noarchive: bool
    canonical: Literal["ignore", "follow", "merge"]
    hreflang: bool
    max_crawl_delay: float
    headers: dict[str, str]
    cookies: bool
    referer: RefererPolicy
    allow_network: list[str]
    trust_start: bool
    dns_timeout: float
    dns_servers: list[str]
    connect_timeout: float
    read_timeout: float
    total_timeout: float
    min_rate: float
    max_body: int
    columns: dict[str, list[str]]
    csv_formulas: Literal["keep", "escape"]
    csv_bom: bool
    files: str
    max_file: int
    file_timeout: float
    max_redirects: int
    handle_status: list[int]
    revisit: str
    revisit_min: str
    revisit_max: str
    revisit_budget: int
    once: bool
    changes_ignore: list[str]
    history_keep: str
    quality: Literal["hold", "warn", "off"]
    row_fields: list[RowField]
    extract: list[ExtractKind]
    max_text: int
    row_meta: bool | list[MetaField]
    archive: str
    archive_compression: Literal["gzip", "zstd"]
    archive_file_size: int
    archive_secrets: bool
    cache: bool
    cache_age: float
    cache_refresh: list[str]
    offline: bool
    max_attempts: int
    retry_base: float
    retry_cap: float
    retry_after_cap: float
    snapshot_bytes: int
    policies: list[str]
    min_timeout: float
    first_timeout: float
    breaker_failures: int
    breaker_rate: float
    breaker_cooldown: float
    breaker_cooldown_cap: float
    breaker_probes: int
    breaker_give_up: float
    retry_budget: float
    retry_budget_floor: int
    backpressure: list[BackpressureRule]
    high_water: int
    store_high_water: float
    memory_limit: int
    max_growth: float
    max_429_share: float
    max_slowdown: float
    max_retry_share: float
    max_sink_lag: float
    max_backlog: int
    max_loop_lag: float
    max_file_share: float
    max_proxy_error_share: float
    keep_jobs: int
    keep_days: float
    keep_dead_jobs: int
    keep_dead_days: float
    keep_letter_days: float
    webhook: str | list[str]
    webhook_secret: str | list[str]
    webhook_days: float
    every: str
    cron: str
    challenges: list[ChallengeKind]
    challenge_check: str
    challenge_delay: float
    challenge_routes: list[str]
    plugins: list[Any]  # names of plugins, or objects
    plugin_options: dict[str, dict[str, Any]]
    transport: str
    proxies: dict[str, Any]
    proxy: str
    pool: str
    worker_pool: str
    fallback: list[str]
    pool_strategy: PoolStrategy
    pool_costs: dict[str, float]
    pool_cooldown: float
    session_requests: int
    session_age: float
    session_key: str
    session_headers: dict[str, dict[str, str]]
    browser_path: str
    browser_tabs: int
    browser_wait: str
    browser_block: list[ResourceType]
    browser_pages: int
    browser_memory: int
    escalate: bool
    http2: bool
    http2_hosts: list[str]
    trust: Literal["auto", "store", "self"]
    outputs: list[str]
    lease: float
    grace: float
    settle_delay: float
    upload_delay: float
    handler_timeout: float
    handler_warn: float


class SpiderSettings(CrawlSettings, total=False):
    """Settings that `Spider(…)` takes."""

    output: list[str]

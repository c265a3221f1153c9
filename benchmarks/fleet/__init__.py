"""A fleet on one machine, as real processes on a real Valkey: does it get faster with every worker, does it stay polite
as a whole, and does it lose nothing when its parts are killed?

    scale    pages a minute of 1, 2, 4 and 20 workers; `--against scrapy-redis` sends both to the same web
    chaos    workers and coordinators killed, a worker frozen past its lease, Valkey and PostgreSQL restarted

All figures about politeness are read from the web server's own log. docs/fleet-figures.md shows a run.
"""

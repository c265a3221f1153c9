"""One module a contender. It is run as a program, in a directory with the files that `terms` names."""

NAMES = ("gather", "semaphore", "workers", "per_domain", "bucket", "scrapy", "shoal")

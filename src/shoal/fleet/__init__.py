"""The same crawl on any number of machines: workers, the coordinator that one of them hosts, and their commands."""

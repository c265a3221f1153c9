"""Processes: one crawl, several workers on this machine, a fleet; how they start, lead, stop and are restarted."""

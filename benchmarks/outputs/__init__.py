"""Every output of a crawl, killed again and again, and read back by programs that are not Shoal."""

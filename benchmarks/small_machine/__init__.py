"""A crawl through ten proxies of mixed quality, to a hundred hosts of which some misbehave, on one small machine."""

"""A crawl in the browser: what it does, why it is slow, and the levers to change that."""

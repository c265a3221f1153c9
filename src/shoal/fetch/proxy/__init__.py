"""The way of a request: pools of proxies, what is known of each, and whose fault a failure is."""

"""The way of a request: pools and their proxies, sessions, and who needs a browser."""

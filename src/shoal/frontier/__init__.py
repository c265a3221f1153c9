"""The durable queue: one protocol, several homes."""

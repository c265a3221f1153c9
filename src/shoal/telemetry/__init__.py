"""What machines are told: logs, metrics, health."""

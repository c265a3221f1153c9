"""Text formats: JSON Lines, JSON, CSV, TSV and XML."""

"""Databases that are files: SQLite and DuckDB."""

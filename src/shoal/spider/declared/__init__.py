"""Spiders that are written as TOML: read, checked and compiled to ordinary spiders. docs/toml.md has the format."""

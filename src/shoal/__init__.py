"""Shoal: a web scraping engine whose queue is the control system."""

from __future__ import annotations

__version__ = "0.1.0"

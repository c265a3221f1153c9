"""What a person uses while writing a spider: a page from anywhere, one handler on it, and more."""

from __future__ import annotations

from pathlib import Path

DEFAULT_CACHE = Path(".shoal/pages")  # what the commands of development fetch

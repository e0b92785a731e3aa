"""The directory of downloads and other reproducible files."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Returns ``SLUICE_CACHE_DIR``, else ``~/.cache/sluice`` (below ``XDG_CACHE_HOME`` if that is set)."""
    return sluice_dir("SLUICE_CACHE_DIR", "XDG_CACHE_HOME", Path(".cache"))


def sluice_dir(own_variable: str, shared_variable: str, home_subdir: Path) -> Path:
    """Returns the directory of Sluice's own variable, else the one below the shared variable or the home directory."""
    if value := os.environ.get(own_variable):
        return Path(value).expanduser().absolute()
    if value := os.environ.get(shared_variable):
        return Path(value).expanduser().absolute() / "sluice"
    return Path.home() / home_subdir / "sluice"

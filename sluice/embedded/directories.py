"""Directories of downloads and of embedded servers' data."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Returns the directory for downloads and other reproducible files: ``SLUICE_CACHE_DIR``, else ``~/.cache/sluice``."""
    return _from_environment("SLUICE_CACHE_DIR", "XDG_CACHE_HOME", Path(".cache"))


def data_home() -> Path:
    """Returns the directory for data of embedded servers: ``SLUICE_DATA_DIR``, else ``~/.local/share/sluice``."""
    return _from_environment("SLUICE_DATA_DIR", "XDG_DATA_HOME", Path(".local") / "share")


def _from_environment(own: str, shared: str, home_subdir: Path) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    if value := os.environ.get(shared):
        return Path(value).expanduser().absolute() / "sluice"
    return Path.home() / home_subdir / "sluice"

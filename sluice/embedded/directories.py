"""Directories of downloads and of embedded servers' data."""

from __future__ import annotations

from pathlib import Path

from connect.cache import cache_dir, sluice_dir

__all__ = ["cache_dir", "data_home"]


def data_home() -> Path:
    """Returns the directory for data of embedded servers: ``SLUICE_DATA_DIR``, else ``~/.local/share/sluice``."""
    return sluice_dir("SLUICE_DATA_DIR", "XDG_DATA_HOME", Path(".local") / "share")

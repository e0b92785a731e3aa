"""The version of Sluice, which its connectors have too."""

from __future__ import annotations

from functools import cache
from importlib import metadata

DISTRIBUTION = "sluice-connect"


@cache
def sluice_version() -> str:
    """The version of the installed distribution; ``unknown`` if the code runs without one. Read from the disk once."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"

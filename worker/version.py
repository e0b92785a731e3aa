"""The version of this worker, as REST and statuses show it."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

DISTRIBUTION = "sluice-connect"


@lru_cache(maxsize=1)
def version() -> str:
    """The installed distribution's version; ``unknown`` when the code runs from a folder that is not installed."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"

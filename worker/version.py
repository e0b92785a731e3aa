"""The versions of this worker: Sluice's, and that of the Apache worker whose REST API it implements."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from connect.plugins import APACHE_VERSION
from worker.model import ServerInfo

DISTRIBUTION = "sluice-connect"


@lru_cache(maxsize=1)
def version() -> str:
    """Returns the installed distribution's version; ``unknown`` if the code is not installed."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def server_info(cluster_id: str | None) -> ServerInfo:
    """Returns the response of ``GET /``: Apache's version, which clients check, and Sluice's version as the commit."""
    return ServerInfo(APACHE_VERSION, f"sluice-{version()}", cluster_id)

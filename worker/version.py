"""The versions of this worker: its own, and the one of Apache's that it stands in for."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from connect.plugins import APACHE_VERSION
from worker.model import ServerInfo

DISTRIBUTION = "sluice-connect"


@lru_cache(maxsize=1)
def version() -> str:
    """The installed distribution's version; ``unknown`` when the code runs from a folder that is not installed."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def server_info(cluster_id: str | None) -> ServerInfo:
    """What ``GET /`` shows: the version of Apache's worker whose REST API this is, for clients that choose by it, and in place of
    a commit which Sluice it is."""
    return ServerInfo(APACHE_VERSION, f"sluice-{version()}", cluster_id)

"""The versions of this worker: Sluice's, and that of the Apache worker whose REST API it implements."""

from __future__ import annotations

from connect.plugins import APACHE_VERSION
from connect.version import sluice_version
from worker.model import ServerInfo


def server_info(cluster_id: str | None) -> ServerInfo:
    """Returns the response of ``GET /``: Apache's version, which clients check, and Sluice's version as the commit."""
    return ServerInfo(APACHE_VERSION, f"sluice-{sluice_version()}", cluster_id)

"""The API of REST extensions: classes that see each request before the REST API does (``rest.extension.classes``, KIP-285).

An extension is a Python class, named ``module:Class``, with the methods of :class:`RestExtension`::

    class AuditLog:
        def configure(self, settings):
            self.file = settings["audit.file"]

        def wrap(self, app, cluster):
            async def audited(scope, receive, send):
                ...
                await app(scope, receive, send)
            return audited

        def close(self): ...

Apache's basic authentication extension is built in and known by its Java name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.types import ASGIApp

from worker.herder import ConnectorReader, WorkerInformation
from worker.model import ConnectorStatus

USER_KEY = "sluice.user"
"""Where an extension that authenticates leaves the user's name in the ASGI scope, for ``rest.authentication=extension``."""


class _ClusterSource(ConnectorReader, WorkerInformation, Protocol):
    """The parts of the herder that extensions may read."""


class ClusterView:
    """Read-only view of the cluster for extensions. Its methods block like the herder's: call them on a thread."""

    def __init__(self, herder: _ClusterSource) -> None:
        self._herder = herder

    def connectors(self) -> list[str]:
        return self._herder.connectors()

    def connector_config(self, name: str) -> dict[str, str | None]:
        """Raises NotFoundError for an unknown connector."""
        return dict(self._herder.connector_info(name).config)

    def connector_status(self, name: str) -> ConnectorStatus:
        """Raises NotFoundError for an unknown connector."""
        return self._herder.connector_status(name)

    def kafka_cluster_id(self) -> str | None:
        return self._herder.server_info().kafka_cluster_id


class RestExtension(Protocol):
    """The methods of an extension. The worker creates one instance at startup, without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Takes the worker's properties. Called once, before the worker listens. Raise ConfigError to abort startup."""

    def wrap(self, app: ASGIApp, cluster: ClusterView) -> ASGIApp:
        """Returns the ASGI app that receives the requests of the REST listeners and passes accepted ones to ``app``. Called once.

        As in Apache's worker, extensions do not see requests to ``admin.listeners``.
        """

    def close(self) -> None:
        """Releases resources. Called once, after the last request."""

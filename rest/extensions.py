"""REST extensions: classes that stand between a request and REST (``rest.extension.classes``, KIP-285).

Apache's basic authentication is known by its Java name. An extension of one's own is a Python class, named ``module:Class``, with
the methods of :class:`RestExtension`::

    class AuditLog:
        def configure(self, settings):
            self.file = settings["audit.file"]

        def wrap(self, app, cluster):
            async def audited(scope, receive, send):
                ...
                await app(scope, receive, send)
            return audited

        def close(self): ...
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from starlette.types import ASGIApp

from connect.errors import ConfigError, ConnectError
from worker.herder import Herder
from worker.model import ConnectorStatus

KEY = "rest.extension.classes"
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


class ClusterView:
    """What an extension may see of the cluster: nothing that changes it. Its calls may block, as the herder's: call them on a
    thread."""

    def __init__(self, herder: Herder) -> None:
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
    """What an extension has. One is made at the worker's start, with no arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Takes the worker's properties. Called once, before anything listens; a ConfigError ends the worker's start."""

    def wrap(self, app: ASGIApp, cluster: ClusterView) -> ASGIApp:
        """Called once. The ASGI app that gets the requests of the REST listeners, and that hands on to ``app`` what it lets pass.
        Listeners of ``admin.listeners`` are not wrapped, as in Apache's worker."""

    def close(self) -> None:
        """Called once, after the last request."""


def load_extensions(names: Sequence[str], settings: Mapping[str, str]) -> list[RestExtension]:
    """The extensions, configured, in the order of their names: the first sees a request first. Raises ConfigError."""
    extensions = []
    for name in names:
        extension = _made(name)
        try:
            extension.configure(settings)
        except ConnectError:
            raise
        except Exception as e:
            raise ConfigError.invalid(KEY, name, f"its configure() failed: {type(e).__name__}: {e}") from e
        extensions.append(extension)
    return extensions


def _made(name: str) -> RestExtension:
    if name in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
        from rest.middleware.basic_auth import BasicAuth

        return BasicAuth()
    module, colon, cls = name.partition(":")
    if not colon:
        raise ConfigError.invalid(
            KEY, name, f"a Java class cannot be used here; there is {BASIC_AUTH}, and an extension of your own is a Python "
            "class, named module:Class"
        )  # fmt: skip
    try:
        made = getattr(importlib.import_module(module), cls)()
    except Exception as e:
        raise ConfigError.invalid(KEY, name, f"the class cannot be loaded: {type(e).__name__}: {e}") from e
    missing = [method for method in ("configure", "wrap", "close") if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError.invalid(KEY, name, f"the class has no {', '.join(f'{method}()' for method in missing)}")
    extension: RestExtension = made
    return extension

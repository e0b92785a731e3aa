"""What REST does besides listening, as a worker's properties say: limits, headers, cross-origin rules, extensions."""

from __future__ import annotations

from dataclasses import dataclass, field

from rest.extensions import RestExtension, load_extensions
from rest.forwarding.worker_client import Outgoing
from rest.middleware.cors import CorsRules
from rest.middleware.request_body import DEFAULT_MAX_BYTES
from rest.middleware.response_headers import HeaderRule, header_rules
from rest.server.listeners import ListenSettings
from rest.server.tls import ADMIN_PREFIX, LISTENERS_PREFIX, TlsSettings
from worker.config.worker_config import WorkerConfig


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """The worker's keys ``access.control.*``, ``response.http.headers.config``, ``rest.extension.classes`` and
    ``rest.max.request.size.bytes``, typed."""

    max_request_bytes: int = DEFAULT_MAX_BYTES
    cors: CorsRules | None = None
    headers: tuple[HeaderRule, ...] = ()
    extensions: tuple[RestExtension, ...] = ()
    """Made and configured; the server closes them."""
    outgoing: Outgoing = field(default_factory=Outgoing)
    """For requests that another worker of the cluster has to answer."""


def listen_settings(config: WorkerConfig) -> ListenSettings:
    """Where a worker listens. Raises ConfigError for TLS settings that are wrong."""
    admin = config.admin_listeners
    return ListenSettings(
        config.listeners,
        config.rest_advertised_host_name,
        config.rest_advertised_port,
        config.rest_advertised_listener,
        admin,
        TlsSettings.of(config.originals, LISTENERS_PREFIX) if _has_https(config.listeners) else None,
        TlsSettings.of(config.originals, ADMIN_PREFIX) if _has_https(admin or ()) else None,
    )


def door_settings(config: WorkerConfig) -> DoorSettings:
    """What else it does. Loads the extensions. Raises ConfigError."""
    return DoorSettings(
        config.rest_max_request_size_bytes,
        CorsRules.of(config.access_control_allow_origin, config.access_control_allow_methods),
        header_rules(config.response_http_headers_config),
        tuple(load_extensions(config.rest_extension_classes, config.originals)),
        Outgoing.of_worker(config),
    )


def _has_https(listeners: tuple[str, ...]) -> bool:
    return any(listener.lower().startswith("https:") for listener in listeners)

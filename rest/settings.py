"""Settings of the REST server, from the worker's properties: listeners, limits, headers, CORS rules, extensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect.errors import ConfigError
from rest.extensions import RestExtension
from rest.forwarding.worker_client import WorkerClient
from rest.middleware.cors import CorsRules
from rest.middleware.extension_loader import load_extensions
from rest.middleware.request_body import DEFAULT_MAX_BYTES
from rest.middleware.response_headers import HeaderRule, parse_header_rules
from rest.server.listeners import ListenSettings
from rest.server.tls import ADMIN_PREFIX, LISTENERS_PREFIX, TlsSettings
from rest.ui.settings import UiSettings
from worker.config.rest_security_config import DEFAULT_MAX_HEADER_BYTES
from worker.config.worker_config import WorkerConfig

if TYPE_CHECKING:
    from rest.security.service import RestSecurity


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Typed values of ``access.control.*``, ``response.http.headers.config``, ``rest.extension.classes``,
    ``rest.max.request.size.bytes``, and ``ui.*``."""

    max_request_bytes: int = DEFAULT_MAX_BYTES
    cors: CorsRules | None = None
    headers: tuple[HeaderRule, ...] = ()
    extensions: tuple[RestExtension, ...] = ()
    """Configured instances; the server closes them."""
    worker_client: WorkerClient = field(default_factory=WorkerClient)
    """Forwards requests that another worker of the cluster must answer."""
    max_header_bytes: int = DEFAULT_MAX_HEADER_BYTES
    security: RestSecurity | None = None
    """Authentication, roles, and audit log; None without any of them. The server closes it."""
    peer_scheme: str = "http"
    """The scheme of other workers' addresses."""
    ui: UiSettings | None = None
    """None: no web page."""


def listen_settings(config: WorkerConfig) -> ListenSettings:
    """Returns the listener settings of a worker. Raises ConfigError for invalid TLS settings."""
    admin = config.admin_listeners
    return ListenSettings(
        config.listeners,
        config.rest_advertised_host_name,
        config.rest_advertised_port,
        config.rest_advertised_listener,
        admin,
        TlsSettings.from_properties(config.originals, LISTENERS_PREFIX) if _has_https(config.listeners) else None,
        TlsSettings.from_properties(config.originals, ADMIN_PREFIX) if _has_https(admin or ()) else None,
    )


def rest_settings(config: WorkerConfig) -> RestSettings:
    """Returns the other REST settings of a worker and loads its extensions. Raises ConfigError."""
    cors = CorsRules.parse(config.access_control_allow_origin, config.access_control_allow_methods)
    return RestSettings(
        config.rest_max_request_size_bytes,
        cors,
        parse_header_rules(config.response_http_headers_config),
        tuple(load_extensions(config.rest_extension_classes, config.originals)),
        WorkerClient.from_config(config),
        config.rest_security.max_header_bytes,
        _security(config, cors),
        _advertised_scheme(config),
        UiSettings(read_only=config.ui_read_only) if config.ui_enabled else None,
    )


def _security(config: WorkerConfig, cors: CorsRules | None) -> RestSecurity | None:
    given = config.rest_security
    if not given.is_authenticating and given.audit_file is None and not given.mask_secrets:
        return None
    # Only a worker that uses it loads the libraries for passwords and tokens.
    from rest.security.service import RestSecurity

    if given.is_authenticating and config.distributed is not None and config.distributed.protocol != "sessioned":
        raise ConfigError.invalid(
            "connect.protocol", config.distributed.protocol, "authentication needs signed requests between workers: use sessioned"
        )
    return RestSecurity(given, config.providers.mask.mask, cors)


def _advertised_scheme(config: WorkerConfig) -> str:
    has_http = any(listener.lower().startswith("http:") for listener in config.listeners)
    return config.rest_advertised_listener or ("http" if has_http or not config.listeners else "https")


def _has_https(listeners: tuple[str, ...]) -> bool:
    return any(listener.lower().startswith("https:") for listener in listeners)

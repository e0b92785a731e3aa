"""Decides whether this process traces its tasks, and checks what OpenTelemetry's environment variables ask for."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from connect.errors import ConfigError, MissingExtraError
from connect.extras import require_extra
from worker.config.secrets import SecretMask
from worker.config.tracing_keys import TRACING_ENABLED
from worker.config.worker_config import WorkerConfig

if TYPE_CHECKING:
    from worker.observability.tracing.tracing import Tracing

log = logging.getLogger(__name__)

EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
EXPORTERS = ("otlp", "console", "none")
_PROTOCOL_VARIABLES = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
_PROTOCOL = "http/protobuf"


def check_tracing(config: WorkerConfig, environment: Mapping[str, str] = os.environ) -> None:
    """Raises MissingExtraError or ConfigError if the worker is to trace and cannot. Imports nothing of OpenTelemetry."""
    if not config.tracing_enabled:
        return
    require_extra("otel", f"{TRACING_ENABLED}=true")
    exporter = find_exporter(environment)
    for name in _PROTOCOL_VARIABLES if exporter == "otlp" else ():
        value = environment.get(name, "").strip()
        if value:
            if value != _PROTOCOL:
                raise ConfigError(
                    f"Invalid value {value} for environment variable {name}: expected {_PROTOCOL}, which collectors "
                    "serve on port 4318",
                    key=TRACING_ENABLED,
                )
            break  # the variable for traces takes precedence


def find_exporter(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the exporter that the environment asks for. Raises ConfigError."""
    name = environment.get(EXPORTER_VARIABLE, "").strip().lower() or EXPORTERS[0]
    if name not in EXPORTERS:
        raise ConfigError(
            f"Invalid value {name} for environment variable {EXPORTER_VARIABLE}: expected one of {', '.join(EXPORTERS)}",
            key=TRACING_ENABLED,
        )
    return name


def start_tracing(config: WorkerConfig, mask: SecretMask) -> Tracing | None:
    """Returns what creates the traces of this process; the caller closes it. None if there are to be none.

    The worker has checked its own environment when it started; a connector's own one may lack the extra, which is a warning.
    """
    if not config.tracing_enabled:
        return None
    try:
        check_tracing(config)
    except MissingExtraError as e:
        log.warning("Tasks of this executor are not traced: %s", e.message)
        return None
    from worker.observability.tracing.tracing import Tracing, create_exporter

    return Tracing(config.worker_id, mask, create_exporter(find_exporter(), mask))

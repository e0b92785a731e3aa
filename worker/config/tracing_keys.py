"""Key for traces. Not in Apache's worker. Everything else about traces is OpenTelemetry's environment variables."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType

TRACING_ENABLED = "tracing.enabled"

TRACING_KEYS = (
    ConfigKey(
        TRACING_ENABLED,
        ConfigType.BOOLEAN,
        False,
        importance=Importance.LOW,
        doc=(
            "Whether tasks export OpenTelemetry traces and put the header traceparent on records that they write. Needs the "
            "extra otel. The environment variables OTEL_* set endpoint, service name, and sampler."
        ),
    ),
)
"""For workers of both modes."""

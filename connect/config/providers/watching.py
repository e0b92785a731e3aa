"""``ttl.ms``: how often a provider of files is asked whether they have changed. Apache's providers have no such parameter."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import Range

TTL_MS = ConfigKey(
    "ttl.ms",
    ConfigType.LONG,
    None,
    importance=Importance.LOW,
    doc="How often, in milliseconds, the values are looked up again; connectors whose values are others are restarted. "
    "Not set: they are looked up when a connector or task starts, and then never again.",
    validator=Range(minimum=100, nullable=True),
)

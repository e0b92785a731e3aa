"""What a distributed worker checks besides: exactly-once of sources, and that sinks stay out of the group of the workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect.config.definition import ConfigValue
from connect.connector import Connector, SinkConnector
from worker.config.client_overrides import sink_group
from worker.config.distributed_config import DistributedSettings, ExactlyOnce
from worker.validation.exactly_once_checks import exactly_once_check

_OVERRIDE = "consumer.override.group.id"


def cluster_check(
    settings: DistributedSettings,
) -> Callable[[Connector, Mapping[str, str | None], dict[str, ConfigValue]], None]:
    """A :data:`worker.validation.validate.Check` for a worker with these settings."""
    check_source = exactly_once_check(enabled=settings.exactly_once is ExactlyOnce.ENABLED)

    def check(connector: Connector, props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
        if isinstance(connector, SinkConnector):
            _check_group(settings.group_id, props, values)
        else:
            check_source(connector, props, values)

    return check


def _check_group(group: str, props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
    # The texts are Apache's.
    if _OVERRIDE in props:
        value = values.setdefault(_OVERRIDE, ConfigValue(_OVERRIDE, props[_OVERRIDE]))
        if props[_OVERRIDE] == group:
            value.errors.append(f"Consumer group {group} conflicts with Connect worker group {group}")
    elif sink_group(name := props.get("name") or "") == group:
        values["name"].errors.append(
            f"Consumer group for sink connector named {name} conflicts with Connect worker group {group}"
        )

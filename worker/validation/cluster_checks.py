"""Checks that only distributed workers make: exactly-once support of sources (KIP-618) and group IDs of sinks.

The messages are Apache's (recordings eos-*).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from connect.config.definition import ConfigValue
from connect.connector import Connector, ExactlyOnceSupport, SinkConnector, SourceConnector
from worker.config.client_overrides import sink_group
from worker.config.distributed_config import DistributedSettings, ExactlyOnce

log = logging.getLogger(__name__)

_OVERRIDE = "consumer.override.group.id"


def cluster_check(
    settings: DistributedSettings,
) -> Callable[[Connector, Mapping[str, str | None], dict[str, ConfigValue]], None]:
    """Returns the :data:`~worker.validation.validate.WorkerCheck` of a worker with these settings."""
    check_source = exactly_once_check(enabled=settings.exactly_once is ExactlyOnce.ENABLED)

    def check(connector: Connector, props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
        if isinstance(connector, SinkConnector):
            _check_group(settings.group_id, props, values)
        else:
            check_source(connector, props, values)

    return check


def _check_group(group: str, props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
    if _OVERRIDE in props:
        value = values.setdefault(_OVERRIDE, ConfigValue(_OVERRIDE, props[_OVERRIDE]))
        if props[_OVERRIDE] == group:
            value.errors.append(f"Consumer group {group} conflicts with Connect worker group {group}")
    elif sink_group(name := props.get("name") or "") == group:
        values["name"].errors.append(
            f"Consumer group for sink connector named {name} conflicts with Connect worker group {group}"
        )


SUPPORT = "exactly.once.support"
BOUNDARY = "transaction.boundary"

_WORKER_IS_OFF = "This worker does not have exactly-once source support enabled."
_UNKNOWN = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please consult "
    "the documentation for the connector to determine whether it supports exactly-once semantics, and then consider "
    'reconfiguring the connector to use the value "requested" for this property (which will disable this preflight check and '
    "allow the connector to be created)."
)
_UNSUPPORTED = "The connector does not support exactly-once semantics with the provided configuration."
_NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please reconfigure it "
    "to use a different transaction boundary definition."
)


def exactly_once_check(*, enabled: bool) -> Callable[[Connector, Mapping[str, str | None], dict[str, ConfigValue]], None]:
    """Returns a :data:`~worker.validation.validate.WorkerCheck` of exactly-once settings; ``enabled`` is the worker's setting."""

    def check(connector: Connector, props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
        if not isinstance(connector, SourceConnector):
            return
        config = {key: value for key, value in props.items() if value is not None}
        if _is(values[SUPPORT], "required"):
            if not enabled:
                values[SUPPORT].errors.append(_WORKER_IS_OFF)
            _add_connector_answer(values[SUPPORT], lambda: _support_error(connector, config))
        if _is(values[BOUNDARY], "connector"):
            _add_connector_answer(
                values[BOUNDARY],
                lambda: None if connector.can_define_transaction_boundaries(config) else _NO_BOUNDARIES,
            )

    return check


def _is(value: ConfigValue, wanted: str) -> bool:
    return not value.errors and str(value.value).lower() == wanted


def _support_error(connector: SourceConnector, config: Mapping[str, str]) -> str | None:
    match connector.exactly_once_support(config):
        case ExactlyOnceSupport.SUPPORTED:
            return None
        case None:
            return _UNKNOWN
        case _:
            return _UNSUPPORTED


def _add_connector_answer(value: ConfigValue, question: Callable[[], str | None]) -> None:
    """Adds the connector's answer to the errors. If the connector raises, the configuration is invalid."""
    try:
        error = question()
    except Exception as e:
        log.exception("Checking %s with the connector failed", value.name)
        reason = str(e).strip()
        error = "An unexpected error occurred during validation" + (
            f": {reason}" if reason else "; please see the worker logs for more details."
        )
    if error is not None:
        value.errors.append(error)

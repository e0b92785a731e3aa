"""The keys that source connectors have besides: Apache's SourceConnectorConfig.

Names, defaults, order and documentation are those of Apache Connect 4.3: answers carry them, and forms and checks of users are
built on them (recordings validate-*).
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, Range, one_of
from worker.validation.key_rules import UniqueAliases

SOURCE_KEYS = (
    ConfigKey(
        "topic.creation.groups",
        ConfigType.LIST,
        "",
        importance=Importance.LOW,
        doc="Groups of configurations for topics created by source connectors",
        group="Topic Creation",
        order=1,
        width=Width.LONG,
        display_name="Topic Creation Groups",
        validator=UniqueAliases(),
    ),
    ConfigKey(
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        importance=Importance.MEDIUM,
        doc=(
            'Permitted values are requested, required. If set to "required", forces a preflight check for the '
            "connector to ensure that it can provide exactly-once semantics with the given configuration. Some "
            "connectors may be capable of providing exactly-once semantics but not signal to Connect that they "
            "support this; in that case, documentation for the connector should be consulted carefully before "
            'creating it, and the value for this property should be set to "requested". Additionally, if the value is '
            'set to "required" but the worker that performs preflight validation does not have exactly-once support '
            "enabled for source connectors, requests to create or validate the connector will fail."
        ),
        group="Exactly Once Support",
        order=2,
        width=Width.SHORT,
        display_name="Exactly once support",
        validator=one_of("REQUIRED", "REQUESTED", ignore_case=True),
    ),
    ConfigKey(
        "transaction.boundary",
        ConfigType.STRING,
        "poll",
        importance=Importance.MEDIUM,
        doc=(
            "Permitted values are: poll, interval, connector. If set to 'poll', a new producer transaction will be "
            "started and committed for every batch of records that each task from this connector provides to Connect. "
            "If set to 'connector', relies on connector-defined transaction boundaries; note that not all connectors "
            "are capable of defining their own transaction boundaries, and in that case, attempts to instantiate a "
            "connector with this value will fail. Finally, if set to 'interval', commits transactions only after a "
            "user-defined time interval has passed."
        ),
        group="Exactly Once Support",
        order=3,
        width=Width.SHORT,
        display_name="Transaction Boundary",
        validator=one_of("INTERVAL", "POLL", "CONNECTOR", ignore_case=True),
    ),
    ConfigKey(
        "transaction.boundary.interval.ms",
        ConfigType.LONG,
        None,
        importance=Importance.LOW,
        doc=(
            "If 'transaction.boundary' is set to 'interval', determines the interval for producer transaction commits "
            "by connector tasks. If unset, defaults to the value of the worker-level 'offset.flush.interval.ms' "
            "property. It has no effect if a different transaction.boundary is specified."
        ),
        group="Exactly Once Support",
        order=4,
        width=Width.SHORT,
        display_name="Transaction boundary interval",
        validator=Range(minimum=0, nullable=True),
    ),
    ConfigKey(
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=(
            "The name of a separate offsets topic to use for this connector. If empty or not specified, the worker’s "
            "global offsets topic name will be used. If specified, the offsets topic will be created if it does not "
            "already exist on the Kafka cluster targeted by this connector (which may be different from the one used "
            "for the worker's global offsets topic if the bootstrap.servers property of the connector's producer has "
            "been overridden from the worker's). Only applicable in distributed mode; in standalone mode, setting "
            "this property will have no effect."
        ),
        group="offsets.topic",
        order=1,
        width=Width.LONG,
        display_name="Offsets topic",
        validator=NonEmpty(),
    ),
)

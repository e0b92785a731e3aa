"""The framework's keys of connectors: Apache's ConnectorConfig, SinkConnectorConfig, and SourceConnectorConfig.

Names, defaults, order, and documentation are those of Apache Kafka Connect 4.3, because REST shows them and users build forms and
checks on them (recordings validate-*). Sluice's own keys are in :mod:`worker.config.extension_keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from connect.config.definition import NO_DEFAULT, ConfigKey, Importance, Validator, Width
from connect.config.types import ConfigType
from connect.config.validators import (
    DistinctList,
    NonEmpty,
    NonEmptyWithoutControlCharacters,
    NonNull,
    Range,
    at_least,
    one_of,
)
from connect.errors import ConfigError
from connect.transforms.config import JavaRegex

_BOOLEAN, _CLASS, _INT, _LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.INT, ConfigType.LIST
_LONG, _SHORT, _STRING = ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_SHORT_WIDTH, _MEDIUM_WIDTH, _LONG_WIDTH = Width.SHORT, Width.MEDIUM, Width.LONG


@dataclass(frozen=True, slots=True)
class UniqueAliases:
    """Accepts a list without duplicates; null is invalid. Messages are Apache's."""

    def __call__(self, name: str, value: Any) -> None:
        NonNull()(name, value)
        if len(set(value)) < len(value):
            raise ConfigError.invalid(name, f"[{', '.join(value)}]", "Duplicate alias provided.")

    def __str__(self) -> str:
        return f"{NonNull()}, unique transformation aliases"


def _key(
    name: str,
    type: ConfigType,
    default: Any,
    importance: Importance,
    group: str,
    order: int,
    width: Width,
    display_name: str,
    doc: str,
    validator: Validator | None = None,
) -> ConfigKey:
    return ConfigKey(name, type, default, validator, importance, doc, group, order, width, display_name)


COMMON_KEYS: Final = (
    _key(
        "name", _STRING, NO_DEFAULT, _HIGH, "Common", 1, _MEDIUM_WIDTH, "Connector name",
        "Globally unique name to use for this connector.",
        NonEmptyWithoutControlCharacters(),
    ),
    _key(
        "connector.class", _STRING, NO_DEFAULT, _HIGH, "Common", 2, _LONG_WIDTH, "Connector class",
        "Name or alias of the class for this connector. Must be a subclass of "
        "org.apache.kafka.connect.connector.Connector. If the connector is "
        "org.apache.kafka.connect.file.FileStreamSinkConnector, you can either specify this full name,  or use "
        '"FileStreamSink" or "FileStreamSinkConnector" to make the configuration a bit shorter',
    ),
    _key(
        "connector.plugin.version", _STRING, None, _MEDIUM, "Common", 3, _MEDIUM_WIDTH, "Connector version",
        "Version of the connector.",
    ),
    _key(
        "tasks.max", _INT, 1, _HIGH, "Common", 4, _SHORT_WIDTH, "Tasks max",
        "Maximum number of tasks to use for this connector.",
        at_least(1),
    ),
    _key(
        "tasks.max.enforce", _BOOLEAN, True, _LOW, "Common", 5, _SHORT_WIDTH, "Enforce tasks max",
        "(Deprecated) Whether to enforce that the tasks.max property is respected by the connector. By default, "
        "connectors that generate too many tasks will fail, and existing sets of tasks that exceed the tasks.max property"
        " will also be failed. If this property is set to false, then connectors will be allowed to generate more than "
        "the maximum number of tasks, and existing sets of tasks that exceed the tasks.max property will be allowed to "
        "run. This property is deprecated and will be removed in an upcoming major release.",
    ),
    _key(
        "key.converter", _CLASS, None, _LOW, "Common", 6, _SHORT_WIDTH, "Key converter class",
        "Converter class used to convert between Kafka Connect format and the serialized form that is written to Kafka. "
        "This controls the format of the keys in messages written to or read from Kafka, and since this is independent of"
        " connectors it allows any connector to work with any serialization format. Examples of common formats include "
        "JSON and Avro.",
    ),
    _key(
        "key.converter.plugin.version", _STRING, None, _LOW, "Common", 7, _SHORT_WIDTH, "Key converter version",
        "Version of the key converter.",
    ),
    _key(
        "value.converter", _CLASS, None, _LOW, "Common", 8, _SHORT_WIDTH, "Value converter class",
        "Converter class used to convert between Kafka Connect format and the serialized form that is written to Kafka. "
        "This controls the format of the values in messages written to or read from Kafka, and since this is independent "
        "of connectors it allows any connector to work with any serialization format. Examples of common formats include "
        "JSON and Avro.",
    ),
    _key(
        "value.converter.plugin.version", _STRING, None, _LOW, "Common", 9, _SHORT_WIDTH, "Value converter version",
        "Version of the value converter.",
    ),
    _key(
        "header.converter", _CLASS, None, _LOW, "Common", 10, _SHORT_WIDTH, "Header converter class",
        "HeaderConverter class used to convert between Kafka Connect format and the serialized form that is written to "
        "Kafka. This controls the format of the header values in messages written to or read from Kafka, and since this "
        "is independent of connectors it allows any connector to work with any serialization format. Examples of common "
        "formats include JSON and Avro. By default, the SimpleHeaderConverter is used to serialize header values to "
        "strings and deserialize them by inferring the schemas.",
    ),
    _key(
        "header.converter.plugin.version", _STRING, None, _LOW, "Common", 11, _SHORT_WIDTH, "Header converter version",
        "Version of the header converter.",
    ),
    _key(
        "transforms", _LIST, "", _LOW, "Transforms", 12, _LONG_WIDTH, "Transforms",
        "Aliases for the transformations to be applied to records.",
        UniqueAliases(),
    ),
    _key(
        "predicates", _LIST, "", _LOW, "Predicates", 13, _LONG_WIDTH, "Predicates",
        "Aliases for the predicates used by transformations.",
        UniqueAliases(),
    ),
    _key(
        "config.action.reload", _STRING, "restart", _LOW, "Common", 14, _MEDIUM_WIDTH, "Reload Action",
        "The action that Connect should take on the connector when changes in external configuration providers result in "
        "a change in the connector's configuration properties. A value of 'none' indicates that Connect will do nothing. "
        "A value of 'restart' indicates that Connect should restart/reload the connector with the updated configuration "
        "properties.The restart may actually be scheduled in the future if the external configuration provider indicates "
        "that a configuration value will expire in the future.",
        one_of("none", "restart"),
    ),
    _key(
        "errors.retry.timeout", _LONG, 0, _MEDIUM, "Error Handling", 1, _MEDIUM_WIDTH, "Retry Timeout for Errors",
        "The maximum duration in milliseconds that a failed operation will be reattempted. The default is 0, which means "
        "no retries will be attempted. Use -1 for infinite retries.",
    ),
    _key(
        "errors.retry.delay.max.ms", _LONG, 60000, _MEDIUM, "Error Handling", 2, _MEDIUM_WIDTH,
        "Maximum Delay Between Retries for Errors",
        "The maximum duration in milliseconds between consecutive retry attempts. Jitter will be added to the delay once "
        "this limit is reached to prevent thundering herd issues.",
    ),
    _key(
        "errors.tolerance", _STRING, "none", _MEDIUM, "Error Handling", 3, _SHORT_WIDTH, "Error Tolerance",
        "Behavior for tolerating errors during connector operation. 'none' is the default value and signals that any "
        "error will result in an immediate connector task failure; 'all' changes the behavior to skip over problematic "
        "records.",
        one_of("none", "all"),
    ),
    _key(
        "errors.log.enable", _BOOLEAN, False, _MEDIUM, "Error Handling", 4, _SHORT_WIDTH, "Log Errors",
        "If true, write each error and the details of the failed operation and problematic record to the Connect "
        "application log. This is 'false' by default, so that only errors that are not tolerated are reported.",
    ),
    _key(
        "errors.log.include.messages", _BOOLEAN, False, _MEDIUM, "Error Handling", 5, _SHORT_WIDTH, "Log Error Details",
        "Whether to include in the log the Connect record that resulted in a failure. For sink records, the topic, "
        "partition, offset, and timestamp will be logged. For source records, the key and value (and their schemas), all "
        "headers, and the timestamp, Kafka topic, Kafka partition, source partition, and source offset will be logged. "
        "This is 'false' by default, which will prevent record keys, values, and headers from being written to log files.",
    ),
)  # fmt: skip
"""Keys of every connector: Apache's ConnectorConfig."""

SINK_KEYS: Final = (
    _key(
        "topics", _LIST, "", _HIGH, "Common", 4, _LONG_WIDTH, "Topics",
        "List of topics to consume, separated by commas",
        DistinctList(may_be_empty=True),
    ),
    _key(
        "topics.regex", _STRING, "", _HIGH, "Common", 4, _LONG_WIDTH, "Topics regex",
        "Regular expression giving topics to consume. Under the hood, the regex is compiled to a "
        "<code>java.util.regex.Pattern</code>. Only one of topics or topics.regex should be specified.",
        JavaRegex(),
    ),
    _key(
        "errors.deadletterqueue.topic.name", _STRING, "", _MEDIUM, "Error Handling", 6, _MEDIUM_WIDTH,
        "Dead Letter Queue Topic Name",
        "The name of the topic to be used as the dead letter queue (DLQ) for messages that result in an error when "
        "processed by this sink connector, or its transformations or converters. The topic name is blank by default, "
        "which means that no messages are to be recorded in the DLQ.",
    ),
    _key(
        "errors.deadletterqueue.topic.replication.factor", _SHORT, 3, _MEDIUM, "Error Handling", 7, _MEDIUM_WIDTH,
        "Dead Letter Queue Topic Replication Factor",
        "Replication factor used to create the dead letter queue topic when it doesn't already exist.",
    ),
    _key(
        "errors.deadletterqueue.context.headers.enable", _BOOLEAN, False, _MEDIUM, "Error Handling", 8, _MEDIUM_WIDTH,
        "Enable Error Context Headers",
        "If true, add headers containing error context to the messages written to the dead letter queue. To avoid "
        "clashing with headers from the original record, all error context header keys, all error context header keys "
        "will start with <code>__connect.errors.</code>",
    ),
)  # fmt: skip
"""Further keys of sink connectors: Apache's SinkConnectorConfig."""

SOURCE_KEYS: Final = (
    _key(
        "topic.creation.groups", _LIST, "", _LOW, "Topic Creation", 1, _LONG_WIDTH, "Topic Creation Groups",
        "Groups of configurations for topics created by source connectors",
        UniqueAliases(),
    ),
    _key(
        "exactly.once.support", _STRING, "requested", _MEDIUM, "Exactly Once Support", 2, _SHORT_WIDTH, "Exactly once support",
        'Permitted values are requested, required. If set to "required", forces a preflight check for the connector to '
        "ensure that it can provide exactly-once semantics with the given configuration. Some connectors may be capable "
        "of providing exactly-once semantics but not signal to Connect that they support this; in that case, "
        "documentation for the connector should be consulted carefully before creating it, and the value for this "
        'property should be set to "requested". Additionally, if the value is set to "required" but the worker that '
        "performs preflight validation does not have exactly-once support enabled for source connectors, requests to "
        "create or validate the connector will fail.",
        one_of("REQUIRED", "REQUESTED", ignore_case=True),
    ),
    _key(
        "transaction.boundary", _STRING, "poll", _MEDIUM, "Exactly Once Support", 3, _SHORT_WIDTH, "Transaction Boundary",
        "Permitted values are: poll, interval, connector. If set to 'poll', a new producer transaction will be started "
        "and committed for every batch of records that each task from this connector provides to Connect. If set to "
        "'connector', relies on connector-defined transaction boundaries; note that not all connectors are capable of "
        "defining their own transaction boundaries, and in that case, attempts to instantiate a connector with this value"
        " will fail. Finally, if set to 'interval', commits transactions only after a user-defined time interval has "
        "passed.",
        one_of("INTERVAL", "POLL", "CONNECTOR", ignore_case=True),
    ),
    _key(
        "transaction.boundary.interval.ms", _LONG, None, _LOW, "Exactly Once Support", 4, _SHORT_WIDTH,
        "Transaction boundary interval",
        "If 'transaction.boundary' is set to 'interval', determines the interval for producer transaction commits by "
        "connector tasks. If unset, defaults to the value of the worker-level 'offset.flush.interval.ms' property. It has"
        " no effect if a different transaction.boundary is specified.",
        Range(minimum=0, nullable=True),
    ),
    _key(
        "offsets.storage.topic", _STRING, None, _LOW, "offsets.topic", 1, _LONG_WIDTH, "Offsets topic",
        "The name of a separate offsets topic to use for this connector. If empty or not specified, the worker’s global "
        "offsets topic name will be used. If specified, the offsets topic will be created if it does not already exist on"
        " the Kafka cluster targeted by this connector (which may be different from the one used for the worker's global "
        "offsets topic if the bootstrap.servers property of the connector's producer has been overridden from the "
        "worker's). Only applicable in distributed mode; in standalone mode, setting this property will have no effect.",
        NonEmpty(),
    ),
)  # fmt: skip
"""Further keys of source connectors: Apache's SourceConnectorConfig."""

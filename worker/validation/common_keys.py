"""The keys that every connector has: Apache's ConnectorConfig.

Names, defaults, order and documentation are those of Apache Connect 4.3: answers carry them, and forms and checks of users are
built on them (recordings validate-*).
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import NonEmptyWithoutControlCharacters, at_least, one_of
from worker.validation.key_rules import UniqueAliases

COMMON_KEYS = (
    ConfigKey(
        "name",
        ConfigType.STRING,
        importance=Importance.HIGH,
        doc="Globally unique name to use for this connector.",
        group="Common",
        order=1,
        width=Width.MEDIUM,
        display_name="Connector name",
        validator=NonEmptyWithoutControlCharacters(),
    ),
    ConfigKey(
        "connector.class",
        ConfigType.STRING,
        importance=Importance.HIGH,
        doc=(
            "Name or alias of the class for this connector. Must be a subclass of "
            "org.apache.kafka.connect.connector.Connector. If the connector is "
            "org.apache.kafka.connect.file.FileStreamSinkConnector, you can either specify this full name,  or use "
            '"FileStreamSink" or "FileStreamSinkConnector" to make the configuration a bit shorter'
        ),
        group="Common",
        order=2,
        width=Width.LONG,
        display_name="Connector class",
    ),
    ConfigKey(
        "connector.plugin.version",
        ConfigType.STRING,
        None,
        importance=Importance.MEDIUM,
        doc="Version of the connector.",
        group="Common",
        order=3,
        width=Width.MEDIUM,
        display_name="Connector version",
    ),
    ConfigKey(
        "tasks.max",
        ConfigType.INT,
        1,
        importance=Importance.HIGH,
        doc="Maximum number of tasks to use for this connector.",
        group="Common",
        order=4,
        width=Width.SHORT,
        display_name="Tasks max",
        validator=at_least(1),
    ),
    ConfigKey(
        "tasks.max.enforce",
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        doc=(
            "(Deprecated) Whether to enforce that the tasks.max property is respected by the connector. By default, "
            "connectors that generate too many tasks will fail, and existing sets of tasks that exceed the tasks.max "
            "property will also be failed. If this property is set to false, then connectors will be allowed to "
            "generate more than the maximum number of tasks, and existing sets of tasks that exceed the tasks.max "
            "property will be allowed to run. This property is deprecated and will be removed in an upcoming major "
            "release."
        ),
        group="Common",
        order=5,
        width=Width.SHORT,
        display_name="Enforce tasks max",
    ),
    ConfigKey(
        "key.converter",
        ConfigType.CLASS,
        None,
        importance=Importance.LOW,
        doc=(
            "Converter class used to convert between Kafka Connect format and the serialized form that is written to "
            "Kafka. This controls the format of the keys in messages written to or read from Kafka, and since this is "
            "independent of connectors it allows any connector to work with any serialization format. Examples of "
            "common formats include JSON and Avro."
        ),
        group="Common",
        order=6,
        width=Width.SHORT,
        display_name="Key converter class",
    ),
    ConfigKey(
        "key.converter.plugin.version",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc="Version of the key converter.",
        group="Common",
        order=7,
        width=Width.SHORT,
        display_name="Key converter version",
    ),
    ConfigKey(
        "value.converter",
        ConfigType.CLASS,
        None,
        importance=Importance.LOW,
        doc=(
            "Converter class used to convert between Kafka Connect format and the serialized form that is written to "
            "Kafka. This controls the format of the values in messages written to or read from Kafka, and since this "
            "is independent of connectors it allows any connector to work with any serialization format. Examples of "
            "common formats include JSON and Avro."
        ),
        group="Common",
        order=8,
        width=Width.SHORT,
        display_name="Value converter class",
    ),
    ConfigKey(
        "value.converter.plugin.version",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc="Version of the value converter.",
        group="Common",
        order=9,
        width=Width.SHORT,
        display_name="Value converter version",
    ),
    ConfigKey(
        "header.converter",
        ConfigType.CLASS,
        None,
        importance=Importance.LOW,
        doc=(
            "HeaderConverter class used to convert between Kafka Connect format and the serialized form that is "
            "written to Kafka. This controls the format of the header values in messages written to or read from "
            "Kafka, and since this is independent of connectors it allows any connector to work with any "
            "serialization format. Examples of common formats include JSON and Avro. By default, the "
            "SimpleHeaderConverter is used to serialize header values to strings and deserialize them by inferring "
            "the schemas."
        ),
        group="Common",
        order=10,
        width=Width.SHORT,
        display_name="Header converter class",
    ),
    ConfigKey(
        "header.converter.plugin.version",
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc="Version of the header converter.",
        group="Common",
        order=11,
        width=Width.SHORT,
        display_name="Header converter version",
    ),
    ConfigKey(
        "transforms",
        ConfigType.LIST,
        "",
        importance=Importance.LOW,
        doc="Aliases for the transformations to be applied to records.",
        group="Transforms",
        order=12,
        width=Width.LONG,
        display_name="Transforms",
        validator=UniqueAliases(),
    ),
    ConfigKey(
        "predicates",
        ConfigType.LIST,
        "",
        importance=Importance.LOW,
        doc="Aliases for the predicates used by transformations.",
        group="Predicates",
        order=13,
        width=Width.LONG,
        display_name="Predicates",
        validator=UniqueAliases(),
    ),
    ConfigKey(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        importance=Importance.LOW,
        doc=(
            "The action that Connect should take on the connector when changes in external configuration providers "
            "result in a change in the connector's configuration properties. A value of 'none' indicates that Connect "
            "will do nothing. A value of 'restart' indicates that Connect should restart/reload the connector with "
            "the updated configuration properties.The restart may actually be scheduled in the future if the external "
            "configuration provider indicates that a configuration value will expire in the future."
        ),
        group="Common",
        order=14,
        width=Width.MEDIUM,
        display_name="Reload Action",
        validator=one_of("none", "restart"),
    ),
    ConfigKey(
        "errors.retry.timeout",
        ConfigType.LONG,
        0,
        importance=Importance.MEDIUM,
        doc=(
            "The maximum duration in milliseconds that a failed operation will be reattempted. The default is 0, "
            "which means no retries will be attempted. Use -1 for infinite retries."
        ),
        group="Error Handling",
        order=1,
        width=Width.MEDIUM,
        display_name="Retry Timeout for Errors",
    ),
    ConfigKey(
        "errors.retry.delay.max.ms",
        ConfigType.LONG,
        60000,
        importance=Importance.MEDIUM,
        doc=(
            "The maximum duration in milliseconds between consecutive retry attempts. Jitter will be added to the "
            "delay once this limit is reached to prevent thundering herd issues."
        ),
        group="Error Handling",
        order=2,
        width=Width.MEDIUM,
        display_name="Maximum Delay Between Retries for Errors",
    ),
    ConfigKey(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        importance=Importance.MEDIUM,
        doc=(
            "Behavior for tolerating errors during connector operation. 'none' is the default value and signals that "
            "any error will result in an immediate connector task failure; 'all' changes the behavior to skip over "
            "problematic records."
        ),
        group="Error Handling",
        order=3,
        width=Width.SHORT,
        display_name="Error Tolerance",
        validator=one_of("none", "all"),
    ),
    ConfigKey(
        "errors.log.enable",
        ConfigType.BOOLEAN,
        False,
        importance=Importance.MEDIUM,
        doc=(
            "If true, write each error and the details of the failed operation and problematic record to the Connect "
            "application log. This is 'false' by default, so that only errors that are not tolerated are reported."
        ),
        group="Error Handling",
        order=4,
        width=Width.SHORT,
        display_name="Log Errors",
    ),
    ConfigKey(
        "errors.log.include.messages",
        ConfigType.BOOLEAN,
        False,
        importance=Importance.MEDIUM,
        doc=(
            "Whether to include in the log the Connect record that resulted in a failure. For sink records, the "
            "topic, partition, offset, and timestamp will be logged. For source records, the key and value (and their "
            "schemas), all headers, and the timestamp, Kafka topic, Kafka partition, source partition, and source "
            "offset will be logged. This is 'false' by default, which will prevent record keys, values, and headers "
            "from being written to log files."
        ),
        group="Error Handling",
        order=5,
        width=Width.SHORT,
        display_name="Log Error Details",
    ),
)

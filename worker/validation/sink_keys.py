"""The keys that sink connectors have besides: Apache's SinkConnectorConfig.

Names, defaults, order and documentation are those of Apache Connect 4.3: answers carry them, and forms and checks of users are
built on them (recordings validate-*).
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import DistinctList
from connect.transforms.config import JavaRegex

SINK_KEYS = (
    ConfigKey(
        "topics",
        ConfigType.LIST,
        "",
        importance=Importance.HIGH,
        doc="List of topics to consume, separated by commas",
        group="Common",
        order=4,
        width=Width.LONG,
        display_name="Topics",
        validator=DistinctList(may_be_empty=True),
    ),
    ConfigKey(
        "topics.regex",
        ConfigType.STRING,
        "",
        importance=Importance.HIGH,
        doc=(
            "Regular expression giving topics to consume. Under the hood, the regex is compiled to a "
            "<code>java.util.regex.Pattern</code>. Only one of topics or topics.regex should be specified."
        ),
        group="Common",
        order=4,
        width=Width.LONG,
        display_name="Topics regex",
        validator=JavaRegex(),
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.name",
        ConfigType.STRING,
        "",
        importance=Importance.MEDIUM,
        doc=(
            "The name of the topic to be used as the dead letter queue (DLQ) for messages that result in an error "
            "when processed by this sink connector, or its transformations or converters. The topic name is blank by "
            "default, which means that no messages are to be recorded in the DLQ."
        ),
        group="Error Handling",
        order=6,
        width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Name",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor",
        ConfigType.SHORT,
        3,
        importance=Importance.MEDIUM,
        doc="Replication factor used to create the dead letter queue topic when it doesn't already exist.",
        group="Error Handling",
        order=7,
        width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Replication Factor",
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable",
        ConfigType.BOOLEAN,
        False,
        importance=Importance.MEDIUM,
        doc=(
            "If true, add headers containing error context to the messages written to the dead letter queue. To avoid "
            "clashing with headers from the original record, all error context header keys, all error context header "
            "keys will start with <code>__connect.errors.</code>"
        ),
        group="Error Handling",
        order=8,
        width=Width.MEDIUM,
        display_name="Enable Error Context Headers",
    ),
)

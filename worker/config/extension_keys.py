"""Keys that Apache's workers and connectors do not have: dead letter queue of sources, restarts, stalls, verification,
connectors.dir, history.

REST validation does not list those of connectors, so that its responses equal Apache's. Lint and the docs list them, and
:class:`worker.validation.config_validator.ConfigValidator` checks them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connect.config.definition import ConfigKey, Importance, Validator, Width
from connect.config.types import ConfigType
from connect.config.validators import Described, at_least, one_of
from connect.errors import ConfigError
from connect.strict import STRICT_KEY
from worker.config.isolation import ISOLATION_KEYS

_INT, _LONG, _SHORT, _STRING = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

_WORKER_DEFAULT = "The worker key of this name is the default for its connectors."


def _error_key(
    name: str,
    type: ConfigType,
    default: Any,
    importance: Importance,
    order: int,
    width: Width,
    display_name: str,
    doc: str,
    validator: Validator | None = None,
) -> ConfigKey:
    return ConfigKey(name, type, default, validator, importance, doc, "Error Handling", order, width, display_name)


SOURCE_DEAD_LETTER_KEYS = (
    _error_key(
        "errors.deadletterqueue.source.topic.name", _STRING, "", _MEDIUM, 9, Width.MEDIUM, "Source Dead Letter Queue Topic Name",
        "The dead letter queue of a source connector: the topic for records that fail in a transformation, a converter, or the "
        "producer. They are written as JSON, and headers describe the error. Empty (the default) means none. (In Apache, only "
        "sinks have a dead letter queue.)",
    ),
    _error_key(
        "errors.deadletterqueue.source.topic.replication.factor", _SHORT, 3, _MEDIUM, 10, Width.MEDIUM,
        "Source Dead Letter Queue Topic Replication Factor",
        "Replication factor used to create the dead letter queue topic of a source connector when it doesn't already exist.",
    ),
)  # fmt: skip
"""For source connectors."""

RESTART_KEYS = (
    _error_key(
        "errors.restart.max.attempts", _INT, 0, _MEDIUM, 11, Width.SHORT, "Max Automatic Restarts",
        "How many times a FAILED connector or task is restarted automatically before it stays FAILED. 0 (the default) means "
        f"never, as in Apache; -1 means no limit. {_WORKER_DEFAULT}",
        at_least(-1),
    ),
    _error_key(
        "errors.restart.delay.initial.ms", _LONG, 1000, _LOW, 12, Width.MEDIUM, "Initial Restart Delay",
        "Delay before the first automatic restart. It doubles with each further restart, minus a random part of up to a fifth. "
        f"{_WORKER_DEFAULT}",
        at_least(1),
    ),
    _error_key(
        "errors.restart.delay.max.ms", _LONG, 60_000, _LOW, 13, Width.MEDIUM, "Max Restart Delay",
        f"Longest delay between automatic restarts. {_WORKER_DEFAULT}",
        at_least(1),
    ),
    _error_key(
        "errors.restart.reset.after.ms", _LONG, 600_000, _LOW, 14, Width.MEDIUM, "Restart Counter Reset Interval",
        f"How long a connector or task must run without failing until its restart counter is reset. {_WORKER_DEFAULT}",
        at_least(0),
    ),
)  # fmt: skip
"""For connectors and workers; a connector's value overrides its worker's."""

STALL_TIMEOUT = "task.stall.timeout.ms"
STALL_QUIET_TIMEOUT = "task.stall.quiet.timeout.ms"

STALL_KEYS = (
    ConfigKey(
        STALL_TIMEOUT, _LONG, 45_000, at_least(0), _LOW,
        "How long a call of the connector or its tasks (start, poll, put, ...) may take, failed calls may be repeated, and "
        "offsets may stay behind, before the status and the log report it as stalled. 0 reports nothing. Nothing is "
        f"stopped or restarted. {_WORKER_DEFAULT}",
        "Stall Detection", 1, Width.MEDIUM, "Stall Timeout",
    ),
    ConfigKey(
        STALL_QUIET_TIMEOUT, _LONG, 300_000, at_least(0), _LOW,
        "The same for what may be silent for a while without being stalled: a poll of a source that has never returned without "
        "records, a sink that has paused its partitions, and a sink that does not let the worker commit offsets. "
        f"{_WORKER_DEFAULT}",
        "Stall Detection", 2, Width.MEDIUM, "Stall Timeout When Quiet",
    ),
)  # fmt: skip
"""For connectors and workers; a connector's value overrides its worker's."""

VERIFY_INTERVAL, VERIFY_TIMEOUT, VERIFY_SOURCE = "verify.interval.ms", "verify.timeout.ms", "verify.source"
VERIFY_TABLES, VERIFY_IGNORED_COLUMNS = "verify.tables", "verify.ignore.columns"
SHORTEST_VERIFY_INTERVAL_MS = 5000
"""A run takes seconds of CPU time before it compares anything."""


def _check_verify_interval(name: str, value: Any) -> None:
    if value is not None and 0 != value < SHORTEST_VERIFY_INTERVAL_MS:  # None: no number, which is reported as such
        raise ConfigError.invalid(name, value, f"Value must be at least {SHORTEST_VERIFY_INTERVAL_MS}, or 0 for never")


def _verify_key(name: str, type: ConfigType, default: Any, order: int, doc: str, validator: Validator | None = None) -> ConfigKey:
    display_name = name.removesuffix(".ms").replace(".", " ").title()
    return ConfigKey(name, type, default, validator, _LOW, doc, "Verification", order, Width.MEDIUM, display_name)


VERIFY_KEYS = (
    _verify_key(
        VERIFY_INTERVAL, _LONG, 0, 1,
        "The worker that runs the connector compares its tables with the database of the source, as sluice verify does, in a "
        "process of its own: so long after the last comparison has ended. 0 (the default) means never; otherwise at least "
        f"{SHORTEST_VERIFY_INTERVAL_MS}. It needs the extra verify, and that of the database.",
        Described(_check_verify_interval, f"0 or [{SHORTEST_VERIFY_INTERVAL_MS},...]"),
    ),
    _verify_key(
        VERIFY_TIMEOUT, _LONG, 600_000, 2,
        "How long one scheduled verification may take until it fails. The next one is due an interval later.",
        at_least(1000),
    ),
    _verify_key(
        VERIFY_SOURCE, _STRING, "", 3,
        "The source connector of the tables, if it cannot be found by its topics.",
    ),
    _verify_key(
        VERIFY_TABLES, _STRING, "", 4,
        "Regular expressions of source tables (schema.table) that are verified, separated by commas. Default: all.",
    ),
    _verify_key(
        VERIFY_IGNORED_COLUMNS, _STRING, "", 5,
        "Columns of the target that are not compared, separated by commas.",
    ),
)  # fmt: skip
"""For connectors: the schedule of verifications."""

CONNECTOR_EXTENSION_KEYS = (
    STRICT_KEY,
    *SOURCE_DEAD_LETTER_KEYS,
    *RESTART_KEYS,
    *ISOLATION_KEYS,
    *STALL_KEYS,
    *VERIFY_KEYS,
)
"""For connectors."""

CONNECTORS_DIR = "connectors.dir"
HISTORY_SIZE = "config.history.size"
HISTORY_TOPIC = "config.history.topic"
LOG_FORMAT = "log.format"

WORKER_EXTENSION_KEYS = (
    *(
        replace(key, doc=key.doc.removesuffix(f" {_WORKER_DEFAULT}"), group=None, order=-1)
        for key in (*RESTART_KEYS, *STALL_KEYS)
    ),
    ConfigKey(
        CONNECTORS_DIR,
        _STRING,
        None,
        importance=_LOW,
        doc=(
            "Directory of connector files (.properties and .json, as on the command line of a standalone worker). The worker "
            "creates, updates, and deletes connectors to match the files. In a cluster, the leader's directory is used."
        ),
    ),
    ConfigKey(
        HISTORY_SIZE,
        _INT,
        20,
        importance=_LOW,
        doc="How many configurations of each connector are stored for inspection and rollback, including the current one.",
        validator=at_least(1),
    ),
    ConfigKey(
        LOG_FORMAT,
        _STRING,
        None,
        importance=_LOW,
        doc=(
            "Format of log lines: text, as in Apache, or json, one object per line. Default: the environment variable "
            "SLUICE_LOG_FORMAT, else text."
        ),
        validator=one_of(None, "text", "json"),
    ),
)
"""For workers of both modes."""

DISTRIBUTED_EXTENSION_KEYS = (
    ConfigKey(
        HISTORY_TOPIC,
        _STRING,
        None,
        importance=_LOW,
        doc=(
            "Topic of the config history. By default, the name of config.storage.topic followed by -history; empty keeps the "
            "history in memory only. Its replication factor is that of config.storage.topic."
        ),
    ),
)
"""For distributed workers."""


def connector_extension_keys(*, for_source: bool) -> tuple[ConfigKey, ...]:
    """Returns the extension keys of source connectors or those of sink connectors."""
    return tuple(key for key in CONNECTOR_EXTENSION_KEYS if for_source or key not in SOURCE_DEAD_LETTER_KEYS)

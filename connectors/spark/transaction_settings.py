"""Keys of ``commit.scope=transaction``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, at_least, one_of
from connect.errors import ConfigError

SCOPE = "commit.scope"
TABLE_SCOPE, TRANSACTION_SCOPE = "table", "transaction"
TOPIC = "transaction.topic"
TABLE = "transaction.table"
TIMEOUT = "transaction.timeout.ms"
RETENTION = "transaction.retention.ms"
SOURCE_KEY = "provide.transaction.metadata"
"""The key of PostgreSQL and Debezium sources that turns transaction metadata on."""
_SUFFIX = ".transaction"


def _check_table(name: str, value: object) -> None:
    NonEmpty()(name, value)
    if "/" in str(value) or "." in str(value):
        raise ConfigError.invalid(name, value, "Expected a table name without slashes and dots")


def define_transaction_keys(d: ConfigDef) -> None:
    """Defines the keys."""
    t, medium, low = ConfigType, Importance.MEDIUM, Importance.LOW
    d.define(SCOPE, t.STRING, TABLE_SCOPE, validator=one_of(TABLE_SCOPE, TRANSACTION_SCOPE), importance=medium, group="Commit",
             doc="table commits each table on its own. transaction commits whole transactions of the source in rounds, and names "
             f"the tables' versions after each round in {TABLE}. It needs tasks.max=1, {SOURCE_KEY}=true on the source, and the "
             "source's transaction topic among the topics.")  # fmt: skip
    d.define(TOPIC, t.STRING, "", importance=low, group="Commit",
             doc=f"The source's transaction topic. Default: the connector's only topic that ends with {_SUFFIX}.")  # fmt: skip
    d.define(TABLE, t.STRING, "_sluice_transactions", validator=_check_table, importance=low, group="Commit",
             doc="Table beside the others with a row per round: source position, time, and each table's version.")  # fmt: skip
    d.define(TIMEOUT, t.LONG, 120_000, validator=at_least(0), importance=low, group="Commit",
             doc="How long after the end of a transaction its events may still arrive, before the ends of the topics decide that "
             "they were filtered or lost. At least the delivery.timeout.ms of the source's producer.")  # fmt: skip
    d.define(RETENTION, t.LONG, 86_400_000, validator=at_least(1), importance=low, group="Commit",
             doc=f"Age at which rows of {TABLE} are deleted. The newest one stays.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of ``commit.scope=transaction``. ``topic`` is empty if the partitions tell."""

    topic: str
    table: str
    timeout_ms: int
    retention_ms: int


def parse_transactions(props: Mapping[str, str], values: Mapping[str, Any], *, is_versioned: bool) -> TransactionConfig | None:
    """The settings; None with ``commit.scope=table``. ``is_versioned``: readers can read older versions of tables. Raises
    ConfigError."""
    if values[SCOPE] != TRANSACTION_SCOPE:
        return None
    if not is_versioned:
        raise ConfigError.invalid(
            SCOPE,
            TRANSACTION_SCOPE,
            "it needs versions of tables in Spark's JVM: table.format=delta or iceberg, without spark.remote",
        )
    tasks = props.get("tasks.max", "1")
    if tasks.strip() != "1":
        raise ConfigError.invalid(
            "tasks.max", tasks, f"{SCOPE}={TRANSACTION_SCOPE} needs all topics in one task, which commits them together; set 1"
        )
    topics = values["topics"] if isinstance(values["topics"], list) else []
    topic = values[TOPIC] or (find_transaction_topic(topics) if topics else "")
    if topic and topics and topic not in topics:
        raise ConfigError.invalid(TOPIC, topic, "Expected one of topics")
    return TransactionConfig(topic, values[TABLE], values[TIMEOUT], values[RETENTION])


def find_transaction_topic(topics: list[str]) -> str:
    """The topic that has the events of transactions. Raises ConfigError."""
    found = [topic for topic in topics if topic.endswith(_SUFFIX)]
    if len(found) == 1:
        return found[0]
    what = f"{', '.join(found)} are several: set {TOPIC}" if found else f"none of the topics ends with {_SUFFIX}"
    raise ConfigError.invalid(
        SCOPE,
        TRANSACTION_SCOPE,
        f"it needs the source's transaction topic, and {what}. Set {SOURCE_KEY}=true on the source, and add "
        "<topic.prefix>.transaction to topics",
    )

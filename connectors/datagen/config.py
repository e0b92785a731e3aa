"""Configuration of the data generator: keys of Confluent's Datagen connector, plus ``rate`` and ``count``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.definition import ConfigDef, Importance, Recommender
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, OneOf, Range, at_least
from connect.errors import ConfigError
from connectors.datagen.quickstarts import QUICKSTARTS

TOPIC = "kafka.topic"
QUICKSTART = "quickstart"
KEY_FIELD = "schema.keyfield"
MAX_INTERVAL = "max.interval"
ITERATIONS = "iterations"
SEED = "random.seed"
RATE = "rate"
COUNT = "count"
TASK_ID = "task.id"
TASKS = "task.count"


class _QuickstartRecommender(Recommender):
    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return list(QUICKSTARTS)


CONFIG = (
    ConfigDef()
    .define(
        TOPIC, ConfigType.STRING, validator=NonEmpty(), importance=Importance.HIGH, aliases=("topic",),
        doc="The topic to write to; topic is an alias.",
    )
    .define(
        QUICKSTART, ConfigType.STRING, validator=OneOf(tuple(QUICKSTARTS), ignore_case=True), importance=Importance.HIGH,
        recommender=_QuickstartRecommender(),
        doc="Kind of records to generate: users, orders (with a nested address), or clickstream.",
    )
    .define(
        KEY_FIELD, ConfigType.STRING, None, importance=Importance.HIGH,
        doc="The field to use as record key. Default: the key of the quickstart; empty for records without a key.",
    )
    .define(
        RATE, ConfigType.DOUBLE, None, validator=Range(minimum=0, nullable=True), importance=Importance.HIGH,
        doc="Records per second over all tasks, evenly distributed; 0 for maximum speed. Overrides max.interval.",
    )
    .define(
        COUNT, ConfigType.LONG, -1, validator=at_least(-1), importance=Importance.HIGH,
        doc="Total number of records over all tasks; -1 for no limit. Afterwards the tasks idle.",
    )
    .define(
        MAX_INTERVAL, ConfigType.LONG, 500, validator=at_least(0), importance=Importance.HIGH,
        doc="Maximum wait between two records of a task in milliseconds; each wait is random up to it. 0 for none.",
    )
    .define(
        ITERATIONS, ConfigType.LONG, -1, validator=at_least(-1), importance=Importance.HIGH,
        doc="Number of records per task; -1 for no limit. Afterwards the task idles.",
    )
    .define(
        SEED, ConfigType.LONG, 0, importance=Importance.LOW, aliases=("seed",),
        doc="Equal seeds generate equal records, even across restarts of the task; seed is an alias.",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DatagenConfig:
    """Configuration of one task. ``limit`` None: no limit; ``rate`` None: wait by ``max_interval_ms``, 0: no wait."""

    topic: str
    quickstart: str
    key_field: str | None
    rate: float | None
    max_interval_ms: int
    limit: int | None
    seed: int
    task_id: int

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> DatagenConfig:
        """Parses the configuration of a task, or of a connector as its only task. Raises ConfigError."""
        values = CONFIG.parse(config)
        quickstart = values[QUICKSTART].lower()
        task_id, tasks = int(config.get(TASK_ID, 0)), int(config.get(TASKS, 1))
        rate = values[RATE]
        return cls(
            values[TOPIC],
            quickstart,
            _key_field(quickstart, values[KEY_FIELD]),
            None if rate is None else rate / tasks,
            values[MAX_INTERVAL],
            _limit(values[ITERATIONS], values[COUNT], task_id, tasks),
            values[SEED],
            task_id,
        )


def _key_field(quickstart: str, given: str | None) -> str | None:
    found = QUICKSTARTS[quickstart]
    if given is None:
        return found.key_field
    if given and found.schema.field(given) is None:
        fields = ", ".join(found.schema.field_names)
        raise ConfigError.invalid(KEY_FIELD, given, f"the quickstart {quickstart} has no such field, but {fields}")
    return given or None


def _limit(iterations: int, count: int, task_id: int, tasks: int) -> int | None:
    limits = [limit for limit in (iterations, _task_share(count, task_id, tasks)) if limit >= 0]
    return min(limits) if limits else None


def _task_share(count: int, task_id: int, tasks: int) -> int:
    return -1 if count < 0 else count // tasks + (task_id < count % tasks)

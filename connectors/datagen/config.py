"""Configuration of the data generator: keys of Confluent's Datagen connector, plus ``rate`` and ``count``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.config.definition import ConfigDef, ConfigValue, Importance, Recommender
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty, Range, at_least
from connect.errors import ConfigError, SchemaError
from connect.suggestions import did_you_mean
from connectors.datagen.generator import RowGenerator, compile_generator
from connectors.datagen.quickstarts import QUICKSTARTS, quickstart_named

TOPIC = "kafka.topic"
QUICKSTART = "quickstart"
SCHEMA_FILENAME = "schema.filename"
SCHEMA_STRING = "schema.string"
KEY_FIELD = "schema.keyfield"
MAX_INTERVAL = "max.interval"
ITERATIONS = "iterations"
SEED = "random.seed"
RATE = "rate"
COUNT = "count"
TASK_ID = "task.id"
TASKS = "task.count"
_SOURCES = (SCHEMA_STRING, SCHEMA_FILENAME, QUICKSTART)
# Confluent's message, letter for letter.
_ONE_SOURCE = f"Must set exactly one of {', '.join(_SOURCES)}"


class _QuickstartRecommender(Recommender):
    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return list(QUICKSTARTS)


class _KnownQuickstart:
    """The name of a quickstart in any case, or an empty text."""

    def __call__(self, name: str, value: Any) -> None:
        if value and value.lower() not in QUICKSTARTS:
            hint = did_you_mean(value.lower(), QUICKSTARTS, "; ")
            raise ConfigError.invalid(name, value, f"expected one of {', '.join(sorted(QUICKSTARTS))}{hint}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(sorted(QUICKSTARTS))}]"


CONFIG = (
    ConfigDef()
    .define(
        TOPIC, ConfigType.STRING, validator=NonEmpty(), importance=Importance.HIGH, aliases=("topic",),
        doc="The topic to write to; topic is an alias.",
    )
    .define(
        QUICKSTART, ConfigType.STRING, "", validator=_KnownQuickstart(), importance=Importance.HIGH,
        recommender=_QuickstartRecommender(),
        doc="Kind of records to generate, such as users, orders (with a nested address), or pageviews. Set exactly one of "
            "quickstart, schema.filename, and schema.string.",
    )
    .define(
        SCHEMA_FILENAME, ConfigType.STRING, "", importance=Importance.HIGH,
        doc="File with the Avro schema of the records, annotated as for Confluent's avro-random-generator (arg.properties). "
            "Every worker must have the file.",
    )
    .define(
        SCHEMA_STRING, ConfigType.STRING, "", importance=Importance.HIGH,
        doc="The Avro schema itself, as JSON, instead of a file.",
    )
    .define(
        KEY_FIELD, ConfigType.STRING, None, importance=Importance.HIGH,
        doc="The field to use as record key. Default: the key of the quickstart, no key for other schemas; empty for records "
            "without a key.",
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
    rows: RowGenerator
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
        rows, default_key = _read_source(values)
        task_id, tasks = int(config.get(TASK_ID, 0)), int(config.get(TASKS, 1))
        rate = values[RATE]
        return cls(
            values[TOPIC],
            rows,
            _key_field(rows, values[KEY_FIELD], default_key),
            None if rate is None else rate / tasks,
            values[MAX_INTERVAL],
            _limit(values[ITERATIONS], values[COUNT], task_id, tasks),
            values[SEED],
            task_id,
        )


_OPTION_FILE = '"file"'
"""In a schema that may name files with options."""


def check_sources(values: list[ConfigValue], config: Mapping[str, str], *, reads_file: bool) -> list[ConfigValue]:
    """Adds the errors that concern several keys: not exactly one schema, an invalid schema, a key field that it does not have.
    Does not open the file of the schema, and files with options in it, unless ``reads_file``."""
    by_name = {value.name: value for value in values}
    given = [name for name in _SOURCES if by_name[name].value]
    if len(given) != 1:
        for name in given or _SOURCES:
            by_name[name].errors.append(_ONE_SOURCE)
        return values
    opens_files = given == [SCHEMA_FILENAME] or _OPTION_FILE in (config.get(SCHEMA_STRING) or "")
    if not any(value.errors for value in values) and (reads_file or not opens_files):
        try:
            DatagenConfig.parse(config)
        except ConfigError as e:
            by_name[e.key or given[0]].errors.append(e.message)
    return values


def _read_source(values: Mapping[str, Any]) -> tuple[RowGenerator, str | None]:
    """Returns the generator of the configured schema, and the default key field."""
    given = [name for name in _SOURCES if values[name]]
    if len(given) != 1:
        raise ConfigError(_ONE_SOURCE, key=given[0] if given else QUICKSTART)
    key = given[0]
    if key == QUICKSTART:
        quickstart = quickstart_named(values[QUICKSTART].lower())
        return quickstart.rows, quickstart.key_field
    text = values[key] if key == SCHEMA_STRING else _read_schema(values[key])
    try:
        return compile_generator(text), None
    except SchemaError as e:
        shown = values[key] if len(values[key]) <= 100 else f"{values[key][:97]}..."
        raise ConfigError.invalid(key, shown, e.message) from e


def _read_schema(filename: str) -> str:
    try:
        return Path(filename).read_text(encoding="utf-8")
    except OSError as e:
        reason = f"{e.strerror or e}; expected a file with an Avro schema that exists on every worker"
        raise ConfigError.invalid(SCHEMA_FILENAME, filename, reason) from e
    except ValueError as e:
        raise ConfigError.invalid(SCHEMA_FILENAME, filename, f"not UTF-8 text, expected an Avro schema as JSON: {e}") from e


def _key_field(rows: RowGenerator, given: str | None, default: str | None) -> str | None:
    if given is None:
        return default
    names = rows.schema.field_names
    if given and given not in names:
        reason = f"{rows.schema.name} has no such field, expected one of {', '.join(names)}{did_you_mean(given, names, '; ')}"
        raise ConfigError.invalid(KEY_FIELD, given, reason)
    return given or None


def _limit(iterations: int, count: int, task_id: int, tasks: int) -> int | None:
    limits = [limit for limit in (iterations, _task_share(count, task_id, tasks)) if limit >= 0]
    return min(limits) if limits else None


def _task_share(count: int, task_id: int, tasks: int) -> int:
    return -1 if count < 0 else count // tasks + (task_id < count % tasks)

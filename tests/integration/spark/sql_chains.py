"""Runs compiled chains in Spark: many chains in a few jobs, each in columns of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connect.data.headers import Header, Headers
from connect.errors import DataError
from connect.plugins import Plugins
from connect.record import ConnectRecord, SinkRecord
from connect.record_format import data_to_json
from connect.transforms.chain import Step, apply_steps, build_steps
from connect.transforms.record_copies import copy_record
from connectors.spark.transforms.compiler import InputSchemas, compile_branches
from connectors.spark.transforms.projection import BY_ROW, DatumColumn, Projection, render
from connectors.spark.transforms.stored_types import arrow_type, connect_value, spark_type, stored_value

PLUGINS = Plugins.discover()
LEFT = "runs by row"
"""The result of a record that SQL leaves to the transformations."""
_CHAINS_PER_QUERY = 100
_INTERPRETED = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
"""Computes projections of small tables while the query is planned."""


@dataclass(slots=True)
class Chain:
    """A chain, with records of one topic and schema."""

    config: dict[str, Any]
    records: list[ConnectRecord]
    steps: list[Step]
    schemas: InputSchemas
    projection: Projection
    results: list[Any] = field(default_factory=list)


def compile_chain(config: dict[str, Any], records: Sequence[ConnectRecord], number: int) -> Chain:
    """Compiles a chain for records of one topic and schema. Raises NotCompilable, and DataError for records that have no stored
    form, such as invalid ones."""
    steps = build_steps(config, PLUGINS)
    first = records[0]
    schemas = InputSchemas(
        first.key_schema, first.value_schema, first.key_schema, first.value_schema, isinstance(first, SinkRecord), f"c{number}."
    )
    projection = render(compile_branches(config, steps, first.topic, schemas), schemas, with_headers=True)
    chain = Chain(config, list(records), steps, schemas, projection)
    _input_column(chain, len(records))
    return chain


def run_by_row(chain: Chain, record: ConnectRecord) -> Any:
    """The result of the transformations: a record, None, or an error."""
    try:
        return apply_steps(chain.steps, record)
    except DataError as e:
        return e


def run_in_spark(spark: Any, chains: Sequence[Chain], *, generates_code: bool = False) -> None:
    """Sets the results of the records: a record, None for a dropped one, or LEFT.

    Spark has two implementations of each expression: generated code, which takes long to compile for so many columns, and an
    interpreter.
    """
    spark.conf.set("spark.sql.codegen.wholeStage", str(generates_code).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if generates_code else "NO_CODEGEN")
    spark.conf.set("spark.sql.optimizer.excludedRules", _INTERPRETED if generates_code else "")
    for start in range(0, len(chains), _CHAINS_PER_QUERY):
        _run_query(spark, chains[start : start + _CHAINS_PER_QUERY])


def _run_query(spark: Any, chains: Sequence[Chain]) -> None:
    size = max(len(chain.records) for chain in chains)
    columns = [_input_column(chain, size) for chain in chains]
    frame = spark.createDataFrame(pa.table(columns, names=[chain.schemas.prefix[:-1] for chain in chains]))
    frame = frame.selectExpr("*", *(f"{c.projection.outcome} AS {c.projection.outcome_column}" for c in chains))
    members = [", ".join(f"'{name}', {_nullable(chain, name, sql)}" for name, sql in chain.projection.select) for chain in chains]
    found = frame.selectExpr(*(f"named_struct({m}) AS r{i}" for i, m in enumerate(members))).toArrow()
    for chain, column in zip(chains, found.columns, strict=True):
        rows = column.to_pylist()
        chain.results = [_result(chain, record, row) for record, row in zip(chain.records, rows, strict=False)]


def _nullable(chain: Chain, name: str, sql: str) -> str:
    """The expression with members that may be null: Arrow does not accept a null struct with members that may not."""
    columns = {c.name: c.schema for c in (*chain.projection.keys, *chain.projection.values)}
    schema = columns.get(name)
    return sql if schema is None else f"CAST({sql} AS {spark_type(schema)})"


def _input_column(chain: Chain, size: int) -> pa.Array:
    schemas = chain.schemas
    types = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "headers": pa.list_(pa.string()),
        "key": pa.bool_() if schemas.key is None else arrow_type(schemas.key),
        "value": pa.bool_() if schemas.value is None else arrow_type(schemas.value),
    }
    rows = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": getattr(record, "offset", None),
            "timestamp": record.timestamp,
            "headers": [header.key for header in record.headers or ()],
            "key": _stored(schemas.key, record.key),
            "value": _stored(schemas.value, record.value),
        }
        for record in chain.records
    ]
    try:
        return pa.array(rows + [None] * (size - len(rows)), pa.struct(list(types.items())))
    except (pa.ArrowException, TypeError, OverflowError) as e:
        raise DataError(str(e)) from e


def _stored(schema: Any, value: Any) -> Any:
    if value is None or schema is None:
        return None if value is None else True
    try:
        return stored_value(schema, value)
    except (TypeError, ValueError, AttributeError) as e:
        raise DataError(str(e)) from e


def _result(chain: Chain, record: ConnectRecord, row: dict[str, Any]) -> Any:
    if row["outcome"] == BY_ROW:
        # The original has passed through Spark as it was.
        for column, schema, value in (
            (chain.projection.keys[0], record.key_schema, record.key),
            (chain.projection.values[0], record.value_schema, record.value),
        ):
            assert data_to_json(schema, _datum(column, row, value)[1]) == data_to_json(schema, value)
        return LEFT
    number = row["outcome"]
    outcome = chain.projection.outcomes[number]
    if outcome.dropped:
        return None
    changed: Any = copy_record(record)
    changed.topic = row["topic"]
    changed.partition, changed.timestamp = row["partition"], row["timestamp"]
    changed.key_schema, changed.key = _datum(outcome.key, row, record.key, outcome.key_null_schema)
    changed.value_schema, changed.value = _datum(outcome.value, row, record.value, outcome.value_null_schema)
    kept = [h for h in record.headers or () if h.key not in outcome.dropped_headers]
    added = [
        Header(h.name, h.schema, None if h.schema is None else connect_value(h.schema, row[f"header_{number}_{i}"]))
        for i, h in enumerate(outcome.headers)
    ]
    changed.headers = Headers([*kept, *added])
    return changed


def _datum(column: DatumColumn | None, row: dict[str, Any], original: Any, null_schema: Any = None) -> tuple[Any, Any]:
    if column is None or row[column.name] is None:
        return null_schema, None
    if column.schema is None:
        return None, original
    return column.schema, connect_value(column.schema, row[column.name])

"""The transformation chain of one topic, compiled to Spark SQL for the schema that its records have had."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.converters.json.parser import parse_json
from connect.converters.json.schema_text import parse_schema
from connect.data.schema import Schema
from connect.errors import ConnectError
from connect.plugins import Plugins
from connect.sink import OffsetRange, RangeReader, TransformingReader
from connect.transforms.chain import Step, build_steps, close_steps
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import AUTO, NEVER
from connectors.spark.decode.column_decoder import check_decodable
from connectors.spark.decode.json import NotBatchable, find_prefix
from connectors.spark.decode.old_keys import HEADER
from connectors.spark.decode.source_block import SourceBlock
from connectors.spark.delivery.topic_decoders import has_schemas
from connectors.spark.executors.sql_rows import FORM, INPUT, READ, carried_columns
from connectors.spark.transforms.compiler import InputSchemas, compile_branches
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.projection import BY_ROW, Outcome, Projection, render
from connectors.spark.transforms.stored_json import StoredJsonReader, schema_text_of
from connectors.spark.transforms.stored_types import arrow_type

log = logging.getLogger(__name__)

_FEWEST_STEPS = 2
"""Without a demand: one step alone is as fast row by row."""
_FEWEST_RECORDS = 5_000
"""Of a topic in a job: for fewer, a second Python process and the plan of the SQL cost more than they save."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The bytes before the payloads of a record's key and value, which have their schemas. ``key`` is None for a record without
    a key, or with one in another form."""

    key: bytes | None
    value: bytes


def find_prefixes(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Prefixes | None:
    """The prefixes of the last record with a value; None if there is none, or its value has no schema."""
    at = next((at for at in range(len(values) - 1, -1, -1) if values[at] is not None), None)
    value = None if at is None else _find_prefix(values[at])
    if at is None or value is None:
        return None
    return Prefixes(_find_prefix(keys[at]), value)


def _find_prefix(message: bytes | None) -> bytes | None:
    try:
        return None if message is None else find_prefix(message).text
    except (NotBatchable, ConnectError, ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class SqlChain:
    """A compiled chain. Picklable.

    ``projection`` selects, beside the outcome, topic, offset, and timestamp, the columns that its outcomes use, and
    :func:`connectors.spark.executors.sql_rows.carried_columns`.
    """

    topic: str
    prefixes: Prefixes
    key: Schema | None
    value: Schema
    fills_defaults: tuple[bool, bool]
    """Whether the converters of keys and values replace nulls by defaults."""
    projection: Projection

    def readers(self) -> tuple[StoredJsonReader | None, StoredJsonReader]:
        """The readers of keys and values."""
        of_keys, of_values = self.fills_defaults
        key = None
        if self.key is not None and self.prefixes.key is not None:
            key = StoredJsonReader(self.prefixes.key, self.key, fills_defaults=of_keys)
        return key, StoredJsonReader(self.prefixes.value, self.value, fills_defaults=of_values)


def compile_chain(
    config: SparkSinkConfig, reader: TransformingReader, steps: Sequence[Step], topic: str, prefixes: Prefixes
) -> SqlChain:
    """Compiles the chain of a reader, of which ``steps`` are the transformations. Raises NotCompilable with the reason, and
    ConnectError for a schema that the converters refuse."""
    key_converter, value_converter = (_require_json(one) for one in reader.converters())
    value = _read_schema(value_converter, prefixes.value)
    key = None if prefixes.key is None else _read_schema(key_converter, prefixes.key)
    if value is None or (key is None and prefixes.key is not None):
        raise NotCompilable("the records have no schema")
    schemas = InputSchemas(key, value)
    projection = render(compile_branches(reader.chain_config(), steps, topic, schemas), schemas)
    source = SourceBlock(needs_names=True, needs_position=True)
    for outcome in projection.outcomes:
        _check(outcome, source)
    defaults = (
        key_converter.read_options.replace_null_with_default,
        value_converter.read_options.replace_null_with_default,
    )
    chain = SqlChain(topic, prefixes, key, value, defaults, _select_needed(projection))
    chain.readers()
    return chain


def _require_json(converter: Converter) -> JsonConverter:
    if type(converter) is not JsonConverter or not has_schemas(converter) or converter.fixed_schema is not None:
        raise NotCompilable("SQL reads only records of JsonConverter with schemas in the messages")
    if not converter.read_options.strict:
        raise NotCompilable("conversion.strict is off")
    return converter


def _read_schema(converter: JsonConverter, prefix: bytes) -> Schema | None:
    """The schema that the converter reads from a message."""
    options = converter.read_options
    return parse_schema(parse_json(schema_text_of(prefix), strict=options.strict), options)


def _check(outcome: Outcome, source: SourceBlock) -> None:
    if any(header.name == HEADER for header in outcome.headers):
        raise NotCompilable(f"a transformation adds the header {HEADER}")
    for column in (outcome.key, outcome.value):
        if column is not None and column.schema is not None:
            check_decodable(column.schema, arrow_type(column.schema), source)


def _select_needed(projection: Projection) -> Projection:
    """The projection with only the columns that tables need. Records that were not read have the outcome BY_ROW."""
    used = {column.name for outcome in projection.outcomes for column in (outcome.key, outcome.value) if column is not None}
    kept = {"outcome", "topic", "offset", "timestamp"} | used
    select = [(name, sql) for name, sql in projection.select if name in kept]
    outcome = f"CASE WHEN {FORM} = {READ} THEN {projection.outcome} ELSE {BY_ROW} END"
    return replace(projection, outcome=outcome, select=(*select, *((name, name) for name in carried_columns())))


class SqlChains:
    """The compiled chains of a task. Used by one thread at a time."""

    def __init__(self, config: SparkSinkConfig) -> None:
        self._config = config
        self._prefixes: dict[str, Prefixes] = {}
        self._compiled: dict[str, tuple[Prefixes, Mapping[str, str], SqlChain | None]] = {}

    def are_wanted(self, reader: RangeReader) -> bool:
        """Whether records of the reader have transformations that SQL may compute."""
        wanted = self._config.executors_sql_transforms
        if wanted == NEVER or not isinstance(reader, TransformingReader):
            return False
        steps = [step for step in reader.chain_config().get("transforms", "").split(",") if step.strip()]
        return len(steps) >= (_FEWEST_STEPS if wanted == AUTO else 1)

    def learn(self, topic: str, prefixes: Prefixes) -> None:
        """The latest records of a topic have these schemas."""
        self._prefixes[topic] = prefixes

    def knows(self, topic: str) -> bool:
        """Whether a schema of the topic's records is known."""
        return topic in self._prefixes

    def compile(self, reader: RangeReader, ranges: Sequence[OffsetRange]) -> dict[str, SqlChain]:
        """The chains of topics whose records SQL shall compute in a job over these ranges."""
        found: dict[str, SqlChain] = {}
        if not isinstance(reader, TransformingReader) or not self.are_wanted(reader):
            return found
        for topic in sorted({one.partition.topic for one in ranges}):
            prefixes = self._prefixes.get(topic)
            count = sum(one.end - one.first for one in ranges if one.partition.topic == topic)
            if prefixes is not None and count >= _FEWEST_RECORDS and (chain := self._chain(reader, topic, prefixes)) is not None:
                found[topic] = chain
        return found

    def _chain(self, reader: TransformingReader, topic: str, prefixes: Prefixes) -> SqlChain | None:
        config = reader.chain_config()
        known = self._compiled.get(topic)
        if known is None or known[:2] != (prefixes, config):
            known = self._compiled[topic] = (prefixes, config, self._try_compile(reader, topic, prefixes))
        return known[2]

    def _try_compile(self, reader: TransformingReader, topic: str, prefixes: Prefixes) -> SqlChain | None:
        name = self._config.connector
        try:
            steps = build_steps(reader.chain_config(), Plugins.discover())
            try:
                chain = compile_chain(self._config, reader, steps, topic, prefixes)
            finally:
                close_steps(steps)
        except (NotCompilable, ConnectError) as e:
            reason = e.reason if isinstance(e, NotCompilable) else e.message
            log.info("%s: transformations of topic %s run row by row in Spark's executors: %s", name, topic, reason)
            return None
        reasons = "; ".join(chain.projection.reasons)
        rest = f", except that records run row by row because of {reasons}" if reasons else ""
        log.info("%s: Spark SQL computes the transformations of topic %s%s", name, topic, rest)
        return chain


def input_types(chain: SqlChain) -> pa.Schema:
    """The columns of the records that the SQL of a chain reads."""
    key = pa.bool_() if chain.key is None else arrow_type(chain.key)
    return pa.schema([*INPUT, ("key", key), ("value", arrow_type(chain.value))])

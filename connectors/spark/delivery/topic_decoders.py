"""Creates the decoders of a task's topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connectors.spark.config import SparkSinkConfig, TableConfig
from connectors.spark.config_keys import SEQ
from connectors.spark.decode.recently_used import RecentlyUsed
from connectors.spark.decode.schema_inference import TopicContent
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.decode.variant import is_variant
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.renames import with_field_names
from connectors.spark.plan.unwrapped import SOURCE_MS_FIELD

TopicContents = Mapping[tuple[str, str], TopicContent]
"""By a topic and the name that a transformation gave its records: what they are."""

_MAX_DECODERS = 1000
"""Of topics, and of the names that a transformation gives them, which may be as many as it likes."""


@dataclass(slots=True)
class _Opened:
    """A decoder, the columns of its table that it knows, and those that it reads as VARIANT."""

    decoder: TopicDecoder
    variants: frozenset[str]
    columns: Columns = field(default_factory=dict)


class TopicDecoders:
    """One decoder per topic, and per name that a transformation gave it. Not thread-safe."""

    def __init__(
        self,
        config: SparkSinkConfig,
        key_converter: Converter,
        value_converter: Converter,
        known_columns: Callable[[str], tuple[str, Columns] | None],
    ) -> None:
        """``known_columns`` returns a topic's only table with its columns; None if it has several, or none yet."""
        self._config = config
        self._key_converter = key_converter
        self._value_converter = value_converter
        self._known_columns = known_columns
        self._decoders: RecentlyUsed[tuple[str, str], _Opened] = RecentlyUsed(_MAX_DECODERS)
        self._contents: dict[tuple[str, str], TopicContent] = {}
        """By the names of decoders. Dropped types may be learned again; what a topic contains was decided."""

    def get(self, origin: str, topic: str) -> TopicDecoder:
        """Returns the decoder of records from topic ``origin`` that a transformation may have renamed to ``topic``. It knows the
        columns that the topic's table has now."""
        name, columns = self._known_columns(topic) or ("", {})
        opened = self._decoders.get((origin, topic), lambda: _Opened(self._create(origin, topic, columns), _variants(columns)))
        if _variants(columns) - opened.variants:
            self._decoders.drop(lambda key: key == (origin, topic))
            return self.get(origin, topic)
        if columns and columns != opened.columns:
            opened.columns = dict(columns)
            table = self._config.of_table(name)
            own = {*table.metadata_columns, table.rescue_column} if table.is_lenient else {*table.metadata_columns}
            fields = {n: t for n, t in columns.items() if n not in own}
            fields = with_field_names(fields, table.schema.renames)
            only = self._only_fields(table, {*columns, *fields})
            opened.decoder.know_table(TableFields(fields, only, table.ignores_case))
        return opened.decoder

    def _only_fields(self, table: TableConfig, columns: Collection[str]) -> frozenset[str] | None:
        """The names, in lower case, of all fields that matter to a table with these columns; None if others may become columns,
        are judged by a contract, or matter to another table of the topic, which may come later."""
        routes = self._config.routes
        has_others = self._config.names_need_record or self._config.changelog is not None or (routes and len(routes.tables) > 1)
        if not table.leaves_fields_out or table.schema.contract.are_used or has_others:
            return None
        own = {SOURCE_MS_FIELD, *table.metadata_columns, *_decisive_fields(self._config, [table])}
        return frozenset(name.lower() for name in {*columns, *own})

    def _create(self, origin: str, topic: str, columns: Columns) -> TopicDecoder:
        """Creates a decoder of records for a table with these columns."""
        table, settings, routes = self._config.table, self._config.settings(), self._config.routes
        is_static = routes is not None and not routes.is_dynamic
        tables = [self._config.of_table(name) for name in routes.tables] if routes is not None and is_static else settings
        of_tables = {one.key_columns for one in tables}
        (*keys,) = of_tables.pop() if len(of_tables) == 1 else ()
        key_name = keys[0] if len(keys) == 1 else None
        return TopicDecoder(
            origin,
            self._key_converter,
            self._value_converter,
            key_schemas=_has_schemas(self._key_converter),
            value_schemas=_has_schemas(self._value_converter),
            fill_defaults=_fills_defaults(self._value_converter),
            key_name=key_name,
            needs_names=self._config.names_need_source,
            needs_keys=table.upserts,
            keeps_tombstones=any(one.upserts or one.keep_tombstones for one in settings),
            # The key columns are in the rows; a single value can be one of several, or that of another table.
            skips_single_keys=table.upserts and key_name is None and any(one.key_columns for one in tables),
            needs_position=table.upserts or SEQ in table.metadata_columns,
            rescues=any(one.is_lenient or one.schema.sets_values_aside for one in settings),
            rescues_empty=any(one.is_lenient for one in settings),
            variants=self._config.variants.with_names(_variants(columns)),
            tells_missing=any(one.schema.tells_missing for one in settings),
            wants_defaults=any(one.upserts and one.schema.uses_defaults for one in settings),
            decisive=_decisive_fields(self._config, settings),
            content=self._contents.setdefault((origin, topic), TopicContent()),
        )

    def contents(self) -> dict[tuple[str, str], TopicContent]:
        """Returns what is known of the topics, for decoders in another process."""
        return {names: replace(content) for names, content in self._contents.items()}

    def learn(self, contents: TopicContents) -> None:
        """Takes over what other decoders have found out that began with what was known here, and have seen more."""
        for names, content in contents.items():
            known = self._contents.setdefault(names, TopicContent())
            if known.voters < content.voters:
                known.envelope, known.votes, known.voters = content.envelope, content.votes, content.voters

    def drop(self, origins: Collection[str]) -> None:
        """Drops the decoders of these topics, with the types that they inferred."""
        self._decoders.drop(lambda key: key[0] in origins)


def _decisive_fields(config: SparkSinkConfig, settings: Collection[TableConfig]) -> set[str]:
    """The fields of records that say where they belong, or what to do with them, whatever columns their tables have."""
    found = set(config.routes.field[:1]) if config.routes is not None else set()
    for table in settings:
        if table.upserts:
            found |= {table.delete_field, *table.operation_field[:1]}
    return found - {""}


def _variants(columns: Columns) -> frozenset[str]:
    return frozenset(name for name, type_ in columns.items() if is_variant(type_))


def _has_schemas(converter: Converter) -> bool:
    """Whether the converter's messages are ``{"schema":...,"payload":...}``; found out from a message, as it has no property.

    Only JsonConverter is asked: one with a registry would register a schema for the message.
    """
    if not isinstance(converter, JsonConverter):
        return False
    return (converter.from_connect_data("probe", Schema.STRING, "") or b"").startswith(b'{"schema":')


def _fills_defaults(converter: Converter) -> bool:
    """Whether the converter replaces a null by the field's default."""
    return isinstance(converter, JsonConverter) and converter.replaces_null_with_default

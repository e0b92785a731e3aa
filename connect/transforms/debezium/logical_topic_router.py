"""ToLogicalTopicRouter and its predecessor ByLogicalTableRouter: route several physical tables to one topic."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from connect.change_events.envelope import AFTER, BEFORE, envelope_struct, is_envelope_schema, renamed_struct, under_schema
from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, SchemaError
from connect.java.regex_replacement import Replacement, compile_replacement
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.config import JavaRegex, compile_regex
from connect.transforms.debezium.config import OptionalRegex
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import new_struct, require_fields, require_struct

PURPOSE = "Updating schema"
_MAX_SCHEMAS = 256
_MAX_TOPICS = 10_000
_KEY_FIELD, _OLD_KEY_FIELD = "__dbz__sourceIdentifier", "__dbz__physicalTableIdentifier"
_NEW_CACHE, _OLD_CACHE = "logical.destination.cache.size", "logical.table.cache.size"
_log = logging.getLogger(__name__)


def _build_config_def(key_field: str, cache_size: str) -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "topic.regex", ConfigType.STRING, importance=Importance.LOW, width=Width.LONG, validator=JavaRegex(non_empty=True),
            display_name="Topic regex", doc="Regular expression; records whose whole topic matches are routed to another topic.",
        )
        .define(
            "topic.replacement", ConfigType.STRING, importance=Importance.LOW, width=Width.LONG,
            display_name="Topic replacement", doc="The new topic; $1 and ${name} stand for groups of topic.regex.",
        )
        .define(
            "key.enforce.uniqueness", ConfigType.BOOLEAN, True, importance=Importance.LOW, width=Width.SHORT,
            display_name="Add source topic name into key",
            doc="Whether to add a field that identifies the table to keys. Without it, equal keys of two tables collide.",
        )
        .define(
            "key.field.regex", ConfigType.STRING, None, importance=Importance.LOW, width=Width.LONG, validator=OptionalRegex(),
            display_name="Key field regex", doc="Regular expression for the old topic; its groups build the text of that field.",
        )
        .define(
            "key.field.name", ConfigType.STRING, key_field, importance=Importance.LOW, width=Width.LONG,
            display_name="Key field name", doc="Name of that field.",
        )
        .define(
            "key.field.replacement", ConfigType.STRING, None, importance=Importance.LOW, width=Width.LONG,
            display_name="Key field replacement",
            doc="Text of that field; $1 and ${name} stand for groups of key.field.regex. If both are unset, it is the old topic.",
        )
        .define(
            "schema.name.adjustment.mode", ConfigType.STRING, "none", importance=Importance.LOW, width=Width.MEDIUM,
            validator=one_of("none", "avro", "avro_unicode", ignore_case=True), display_name="Schema Name Adjustment",
            doc="How to adjust schema names, which contain the topic, for Avro: none keeps them, avro replaces each character "
            "that is not allowed by an underscore, avro_unicode by its number.",
        )
        .define(
            cache_size, ConfigType.INT, 16, importance=Importance.LOW, width=Width.LONG,
            display_name="Cache size", doc="Accepted for compatibility; it has no effect because the caches are bounded.",
        )
    )  # fmt: skip


_CONFIG_DEF = _build_config_def(_KEY_FIELD, _NEW_CACHE)
_OLD_CONFIG_DEF = _build_config_def(_OLD_KEY_FIELD, _OLD_CACHE)


class ToLogicalTopicRouter(Transformation):
    """Changes topics and names schemas after them; adds a field that identifies the table to keys."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = self.config_def().parse(configs)
        self._regex = compile_regex("topic.regex", values["topic.regex"])
        self._replacement = _parse_replacement("topic.replacement", values["topic.replacement"], self._regex)
        key_regex = (values["key.field.regex"] or "").strip()
        key_replacement = (values["key.field.replacement"] or "").strip()
        if key_regex and not key_replacement:
            raise ConfigError.invalid(
                "key.field.replacement", None, "key.field.replacement must be non-empty if key.field.regex is set."
            )
        self._key_regex = compile_regex("key.field.regex", key_regex) if key_regex else None
        self._key_replacement = None if self._key_regex is None else compile_replacement(key_replacement, self._key_regex)
        self._key_field: str = values["key.field.name"]
        self._adds_key_field: bool = values["key.enforce.uniqueness"]
        if self._adds_key_field and not self._key_field:
            raise ConfigError.invalid("key.field.name", self._key_field, "A value is required while key.enforce.uniqueness=true")
        self._adjust = name_adjuster(values["schema.name.adjustment.mode"].lower())
        self._topics: dict[str, str] = {}
        self._identifiers: dict[str, str] = {}
        self._schemas: dict[tuple[str, Schema, str], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()
        self._topics.clear()
        self._identifiers.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        topic = self._topics.get(record.topic) or self._find_topic(record.topic)
        if not topic:
            return record
        new = copy_record(record)
        new.topic = topic
        if record.key is None:
            new.key_schema = None
        else:
            key = require_struct(record.key_schema, record.key, PURPOSE)
            new.key_schema = self._find_schema("key", key.schema, topic)
            new.key = _add_identifier(key, new.key_schema, self._identifier(record.topic) if self._adds_key_field else None)
        if record.value is not None and record.value_schema is not None and is_envelope_schema(record.value_schema):
            event = envelope_struct(record.value_schema, record.value)
            new.value_schema = self._find_schema("value", event.schema, topic)
            new.value = _rename_event(event, new.value_schema)
        return new

    def _find_topic(self, topic: str) -> str:
        """The new topic; empty if it stays."""
        target = ""
        if self._regex.fullmatch(topic) is not None:
            target = self._replacement.replace_first(self._regex, topic)
            if not target:
                _log.warning("topic.regex and topic.replacement result in an empty name for topic %s; keeping the topic", topic)
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        self._topics[topic] = target
        return target

    def _identifier(self, topic: str) -> str:
        """The text that identifies the table. Built only for keys: without one, a missing group in the regex is not an error."""
        known = self._identifiers.get(topic)
        if known is not None:
            return known
        identifier = topic
        if self._key_regex is not None and self._key_replacement is not None and self._key_regex.fullmatch(topic) is not None:
            identifier = self._key_replacement.replace_first(self._key_regex, topic)
        if len(self._identifiers) >= _MAX_TOPICS:
            self._identifiers.clear()
        self._identifiers[topic] = identifier
        return identifier

    def _find_schema(self, part: str, old: Schema, topic: str) -> Schema:
        key = (part, old, topic)
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._key_schema(old, topic) if part == "key" else self._envelope_schema(old, topic)
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            self._schemas[key] = schema
        return schema

    def _key_schema(self, old: Schema, topic: str) -> Schema:
        fields = [(field.name, field.schema) for field in require_fields(old)]
        if self._adds_key_field:
            fields.append((self._key_field, Schema.STRING))
        return old.replace(name=self._adjust(f"{topic}.Key"), default=None, fields=fields)

    def _envelope_schema(self, old: Schema, topic: str) -> Schema:
        row = old.field(BEFORE) or old.field(AFTER)
        row_schema = None if row is None else renamed_struct(row.schema, self._adjust(f"{topic}.Value"))
        fields = [
            (field.name, row_schema if row_schema is not None and field.name in (BEFORE, AFTER) else field.schema)
            for field in require_fields(old)
        ]
        return old.replace(name=self._adjust(f"{topic}.Envelope"), default=None, fields=fields)


class ByLogicalTableRouter(ToLogicalTopicRouter):
    """ToLogicalTopicRouter with its former name and defaults."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _OLD_CONFIG_DEF


def _add_identifier(key: Struct, schema: Schema, identifier: str | None) -> Struct:
    """Adds the text that identifies the table to a key."""
    if identifier is None:
        return under_schema(key, schema)
    return new_struct(schema, [*under_schema(key, key.schema).values, identifier])


def _rename_event(event: Struct, schema: Schema) -> Struct:
    values: list[Any] = []
    for field, old in zip(require_fields(schema), require_fields(event.schema), strict=True):
        value = event.get(old)
        if value is not None and field.schema is not old.schema:
            value = under_schema(require_struct(old.schema, value, PURPOSE), field.schema)
        values.append(value)
    return new_struct(schema, values)


def _parse_replacement(key: str, text: str | None, regex: re.Pattern[str]) -> Replacement:
    if not text:
        raise ConfigError.invalid(key, text, "A value is required")
    replacement = compile_replacement(text, regex)
    if replacement.error is not None:
        raise ConfigError.invalid(key, text, replacement.error)
    return replacement


_INVALID = re.compile(r"[^A-Za-z0-9_.]")
_INVALID_OR_ESCAPE = re.compile(r"[^A-Za-z0-9.]")
_FIRST = re.compile(r"[A-Za-z_]")
_FIRST_BUT_ESCAPE = re.compile(r"[A-Za-z]")
_MAX_NAMES = 10_000


def name_adjuster(mode: str) -> Callable[[str], str]:
    """Builds the function that adjusts names: ``none`` keeps them, ``avro`` replaces each character that Avro does not allow by
    ``_``, ``avro_unicode`` by its number. It raises SchemaError if two names become the same."""
    if mode == "none":
        return lambda name: name
    adjust = _replace_by_underscores if mode == "avro" else _replace_by_numbers
    originals: dict[str, str] = {}

    def adjust_once(name: str) -> str:
        result = adjust(name)
        if result != name and originals.setdefault(result, name) != name:
            raise SchemaError(
                f"The schema name {name} is not a valid Avro name, and adjusted to {result} it is the "
                f"same as {originals[result]}; "
                "choose another topic or schema.name.adjustment.mode=avro_unicode"
            )
        if len(originals) > _MAX_NAMES:
            originals.clear()
        return result

    return adjust_once


def _replace_by_underscores(name: str) -> str:
    head = name[:1]
    if head and not _FIRST.match(head):
        # A digit stays after the underscore, so that names that differ only in it stay different.
        head = f"_{head}" if head.isdecimal() and head <= "\uffff" else _underscore(head)
    return head + _INVALID.sub(lambda found: _underscore(found[0]), name[1:])


def _underscore(char: str) -> str:
    """One underscore per UTF-16 code unit, as in Java."""
    return "__" if ord(char) > 0xFFFF else "_"


def _replace_by_numbers(name: str) -> str:
    head = name[:1]
    if head and not _FIRST_BUT_ESCAPE.match(head):
        head = _format_code_units(head)
    return head + _INVALID_OR_ESCAPE.sub(lambda found: _format_code_units(found[0]), name[1:])


def _format_code_units(char: str) -> str:
    """The UTF-16 code units of a character as Debezium writes them: three digits are not padded."""
    units = char.encode("utf-16-be")
    numbers = [f"{units[i] << 8 | units[i + 1]:x}" for i in range(0, len(units), 2)]
    return "".join(f"_u{number if len(number) > 2 else '00' + number}" for number in numbers)

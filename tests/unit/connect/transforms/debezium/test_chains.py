"""Debezium's configurations in a connector: names, predicates, chains, records as JsonConverter reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.struct import Struct
from connect.plugins import Kind, Plugins
from connect.record import ConnectRecord, SourceRecord
from connect.transforms.chain import apply_steps, apply_steps_batch, build_steps

from .change_events import event, headers_of, row, tombstone

PLUGINS = Plugins.discover()
DEBEZIUM = "io.debezium.transforms"


def _run(config: dict[str, str | None], records: list[SourceRecord]) -> list[ConnectRecord | None]:
    """Each record through the chain; a batch must give the same."""
    steps = build_steps(config, PLUGINS)
    results = [apply_steps(steps, record) for record in records]
    batch = apply_steps_batch(build_steps(config, PLUGINS), records)
    assert [None if r is None else (r.topic, r.value, headers_of(r)) for r in batch] == [
        None if r is None else (r.topic, r.value, headers_of(r)) for r in results
    ]
    return results


def _from_json(text: str) -> tuple[Any, Any]:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    schema, value = converter.to_connect_data("dbserver1.inventory.customers", text.encode())
    return schema, value


def _envelope_json(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """A change event as Debezium's MySQL connector and JsonConverter write it."""
    columns = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": False, "field": "first_name"},
        {"type": "string", "optional": True, "field": "email"},
    ]
    rows = [
        {"type": "struct", "fields": columns, "optional": True, "name": "dbserver1.inventory.customers.Value", "field": name}
        for name in ("before", "after")
    ]
    source = {
        "type": "struct", "optional": False, "name": "io.debezium.connector.mysql.Source", "field": "source",
        "fields": [
            {"type": "string", "optional": False, "field": "db"},
            {"type": "string", "optional": True, "field": "table"},
            {"type": "int64", "optional": False, "field": "ts_ms"},
            {"type": "string", "optional": False, "field": "file"},
            {"type": "int64", "optional": False, "field": "pos"},
        ],
    }  # fmt: skip
    schema = {
        "type": "struct", "optional": False, "name": "dbserver1.inventory.customers.Envelope", "version": 1,
        "fields": [
            *rows, source, {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }  # fmt: skip
    block = {"db": "inventory", "table": "customers", "ts_ms": 1_465_491_411_815, "file": "mysql-bin.000003", "pos": 484}
    payload = {"before": before, "after": after, "source": block, "op": op, "ts_ms": 1_465_491_411_815}
    return json.dumps({"schema": schema, "payload": payload})


def _mysql_event(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> SourceRecord:
    schema, value = _from_json(_envelope_json(op, before, after))
    return SourceRecord({}, {}, "dbserver1.inventory.customers", value_schema=schema, value=value)


ANNE = {"id": 1004, "first_name": "Anne", "email": "annek@noanswer.org"}


def test_metadata_example_of_the_documentation_works() -> None:
    """The event flattening page: metadata in fields and headers, rewritten deletes."""
    config: dict[str, str | None] = {
        "transforms": "unwrap",
        "transforms.unwrap.type": f"{DEBEZIUM}.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op,table,pos,source.ts_ms",
        "transforms.unwrap.add.headers": "db",
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    }
    added, gone = _run(config, [_mysql_event("c", None, ANNE), _mysql_event("d", ANNE, None)])
    assert added is not None
    assert gone is not None
    metadata = {"__op": "c", "__table": "customers", "__pos": 484, "__source_ts_ms": 1_465_491_411_815}
    assert added.value.as_dict() == {**ANNE, "__deleted": "false", **metadata}
    assert gone.value.as_dict() == {**ANNE, "__deleted": "true", **metadata, "__op": "d"}
    assert headers_of(added) == {"__db": "inventory"}


def test_unwrap_from_envelope_is_an_alias() -> None:
    config: dict[str, str | None] = {
        "transforms": "unwrap",
        "transforms.unwrap.type": f"{DEBEZIUM}.UnwrapFromEnvelope",
        "transforms.unwrap.drop.tombstones": "false",
    }
    results = _run(config, [_mysql_event("u", ANNE, ANNE), _mysql_event("d", ANNE, None), tombstone()])
    assert [None if r is None else r.value and r.value.as_dict() for r in results] == [ANNE, None, None]
    assert results[2] is None


def test_changed_field_names_reach_the_row_through_a_header() -> None:
    """The page on changed fields: three transformations one after the other."""
    config: dict[str, str | None] = {
        "transforms": "changes,move,unwrap",
        "transforms.changes.type": f"{DEBEZIUM}.ExtractChangedRecordState",
        "transforms.changes.header.changed.name": "Changed",
        "transforms.move.type": f"{DEBEZIUM}.HeaderToValue",
        "transforms.move.headers": "Changed",
        "transforms.move.fields": "changed",
        "transforms.move.operation": "move",
        "transforms.unwrap.type": f"{DEBEZIUM}.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "changed",
    }
    read, updated = _run(config, [event("r", None, row(1, "a", 1, None)), event("u", row(1, "a", 1, None), row(1, "b", 1, None))])
    assert read is not None
    assert updated is not None
    assert (read.value.get("__changed"), updated.value.get("__changed")) == ([], ["name"])
    assert headers_of(updated) == {}


def test_chain_with_predicate_applies_to_change_events_only() -> None:
    config: dict[str, str | None] = {
        "transforms": "keep,route,zone,logical,unwrap",
        "predicates": "isCustomers",
        "predicates.isCustomers.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.isCustomers.pattern": r"shop\.public\..*",
        "transforms.keep.type": f"{DEBEZIUM}.Filter",
        "transforms.keep.language": "jsr223.groovy",
        "transforms.keep.condition": "value.op != 'd' && value.after?.level in [1, 2]",
        "transforms.keep.predicate": "isCustomers",
        "transforms.route.type": f"{DEBEZIUM}.ContentBasedRouter",
        "transforms.route.language": "jsr223.graal.js",
        "transforms.route.topic.expression": "value.op === 'u' ? 'shop.public.updates_1' : null",
        "transforms.route.predicate": "isCustomers",
        "transforms.zone.type": f"{DEBEZIUM}.TimezoneConverter",
        "transforms.zone.converted.timezone": "+01:00",
        "transforms.logical.type": f"{DEBEZIUM}.ByLogicalTableRouter",
        "transforms.logical.topic.regex": r"(.*)_\d",
        "transforms.logical.topic.replacement": "$1",
        "transforms.unwrap.type": "ExtractNewRecordState",
    }
    heartbeat = SourceRecord({}, {}, "__debezium-heartbeat.shop", value={"ts_ms": 1})
    results = _run(
        config,
        [
            event("c", None, row(1, "Anne", 1, None)),
            event("u", None, row(2, "Bob", 2, None)),
            event("c", None, row(3, "Carl", 3, None)),
            event("d", row(4, "Dora", 1, None)),
            heartbeat,
        ],
    )
    assert [None if r is None else r.topic for r in results] == [
        "shop.public.customers", "shop.public.updates", None, None, "__debezium-heartbeat.shop",
    ]  # fmt: skip
    updated = results[1]
    assert updated is not None
    assert updated.key.as_dict() == {"id": 2, "__dbz__physicalTableIdentifier": "shop.public.updates_1"}
    assert updated.value_schema is not None
    assert updated.value_schema.name == "shop.public.updates.Value"
    assert isinstance(updated.value, Struct)


def test_alias_filter_means_the_apache_transformation() -> None:
    paths = {
        "Filter": "connect.transforms.filter:Filter",
        "org.apache.kafka.connect.transforms.Filter": "connect.transforms.filter:Filter",
        f"{DEBEZIUM}.Filter": "connect.transforms.debezium.scripted:ExpressionFilter",
        "ExpressionFilter": "connect.transforms.debezium.scripted:ExpressionFilter",
    }
    assert {name: PLUGINS.resolve(Kind.TRANSFORMATION, name).path for name in paths} == paths


@pytest.mark.parametrize(
    "name",
    [
        "ExtractNewRecordState", "UnwrapFromEnvelope", "ExtractChangedRecordState", "outbox.EventRouter", "ByLogicalTableRouter",
        "ToLogicalTopicRouter", "HeaderToValue", "TimezoneConverter", "Filter", "ContentBasedRouter",
    ],
)  # fmt: skip
def test_every_debezium_name_resolves_and_its_keys_are_documented(name: str) -> None:
    transformation = PLUGINS.new_transformation(f"{DEBEZIUM}.{name}")
    keys = transformation.config_def().keys.values()
    assert keys
    assert all(key.doc and key.display_name for key in keys)

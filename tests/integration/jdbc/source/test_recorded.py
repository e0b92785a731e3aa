"""What Aiven's connector did with the same tables and configurations: its records and stored offsets, as it left them in Kafka.

``recorded.json``: per scenario the SQL that was run before, what was run once so many records were there, the configuration, the
records (topic without prefix, schema, payload of JsonConverter) and the stored source partitions and offsets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.record import SourceRecord
from connect.testing.harness import MemoryOffsets
from connectors.jdbc import AivenJdbcSource
from tests.integration.jdbc.source.conftest import Database, Sources

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded.json").read_text())
KINDS = {"pg": "postgres", "sqlite": "sqlite"}


def described(schema: Schema) -> str:
    """A field's schema in one line, as in the recordings."""
    kind = {"float": "float32", "double": "float64"}.get(schema.type.value, schema.type.value)
    line = kind + ("?" if schema.optional else "")
    if schema.name is not None:
        line += f' name="{schema.name}"'
    if schema.version is not None:
        line += f" version={schema.version}"
    if schema.parameters:
        line += f" parameters={json.dumps(schema.parameters, sort_keys=True)}"
    return line


@pytest.mark.parametrize("scenario", list(RECORDED))
def test_records_and_offsets_are_those_of_aivens_connector(scenario: str, request: pytest.FixtureRequest, start: Sources) -> None:
    recorded = RECORDED[scenario]
    database: Database = request.getfixturevalue(KINDS[recorded["db"]])
    database.execute(*recorded["sql"])
    config = {name.replace(".", "_"): value for name, value in recorded["config"].items()}
    bulk = recorded["config"]["mode"] == "bulk"
    source = start(database, config, offsets=MemoryOffsets(), kind=AivenJdbcSource, poll_interval_ms="60000" if bulk else "20")
    expected = recorded["records"]
    distinct = len({json.dumps(record, sort_keys=True) for record in expected}) if bulk else len(expected)
    records: list[SourceRecord] = []
    for count, statements in recorded["during"] if not bulk else []:
        records += source.read(count - len(records))
        database.execute(*statements)
    records += source.read(distinct - len(records))
    assert source.poll() == []
    converter = JsonConverter()
    found = []
    for record in records:
        text = converter.from_connect_data(record.topic, record.value_schema, record.value)
        assert text is not None
        assert record.value_schema is not None
        name, fields = recorded["schemas"][next(e[1] for e in expected if e[0] == record.topic.removeprefix("p-"))]
        assert record.value_schema.name == name
        payload = json.loads(text)["payload"]
        # Its driver for SQLite makes 123456 ms of .123456 s: such times are left out of the recordings.
        if "ts" not in expected[0][2]:
            payload.pop("ts", None)
        found.append([record.topic.removeprefix("p-"), payload])
        if len(recorded["schemas"]) == 1:
            assert {f.name: described(f.schema) for f in record.value_schema.fields or ()} == fields
    wanted = [[topic, payload] for topic, _, payload in expected[:distinct]]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    source.commit()
    for partition, offset in recorded["stored"]:
        assert source.offsets.offset(partition) == offset

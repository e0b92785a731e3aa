"""The converters with a real schema registry: registration, versions, compatibility, references, and other clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import DataError, RetriableError, SchemaError
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.json_schema.converter import JsonSchemaConverter
from connectors.registry.protobuf.converter import ProtobufConverter
from connectors.registry.protobuf.files import proto_schema
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.support.registry import EmbeddedRegistry
from tests.support.waiting import WAIT_S, eventually

Name = Callable[[str], str]
CreateConverter = Callable[..., Any]

V1 = SchemaBuilder.struct().name("shop.Order").field("id", Schema.INT64).field("note", Schema.OPTIONAL_STRING).build()
V2 = V1.replace(fields=[*((f.name, f.schema) for f in V1.fields or ()), ("paid", Schema.OPTIONAL_BOOLEAN)])


@pytest.fixture
def converter(registry: EmbeddedRegistry) -> Iterator[CreateConverter]:
    """Creates configured converters for the session's registry."""
    created: list[Any] = []

    def create(kind: type[Any], **configs: str) -> Any:
        one = kind()
        one.configure({"schema.registry.url": registry.url, "max.retries": "0", **configs}, False)
        created.append(one)
        return one

    yield create
    for one in created:
        one.close()


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as one:
        yield one


def _set_compatibility(registry: EmbeddedRegistry, subject: str, level: str) -> None:
    request = urllib.request.Request(
        f"{registry.url}/config/{subject}",
        json.dumps({"compatibility": level}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=WAIT_S).close()


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_new_optional_field_is_a_new_version_and_old_data_stays_readable(
    converter: CreateConverter, registry: EmbeddedRegistry, unique_name: Name, kind: type[Any]
) -> None:
    topic = unique_name("orders")
    nullable = {"optional.for.nullables": "true"} if kind is ProtobufConverter else {}
    writer = converter(kind, **nullable)
    old = writer.from_connect_data(topic, V1, Struct(V1, [1, "a"]))
    if kind is AvroConverter:
        _set_compatibility(registry, f"{topic}-value", "BACKWARD")
    new = writer.from_connect_data(topic, V2, Struct(V2, [2, None, True]))
    reader = converter(kind, **nullable)
    first, second = reader.decode_batch(topic, [old, new])
    assert (first.schema.version, second.schema.version) == (1, 2)
    assert first.value.as_dict() == {"id": 1, "note": "a"}
    assert second.value.as_dict() == {"id": 2, "note": None, "paid": True}
    # Another converter that writes the same schema gets the same id.
    again = converter(kind, **nullable, **{"auto.register.schemas": "false"})
    assert again.from_connect_data(topic, V1, Struct(V1, [1, "a"])) == old
    latest = converter(kind, **nullable, **{"auto.register.schemas": "false", "use.latest.version": "true"})
    assert latest.from_connect_data(topic, V2, Struct(V2, [2, None, True])) == new


def test_incompatible_schema_is_rejected_with_the_message_of_the_registry(
    converter: CreateConverter, registry: EmbeddedRegistry, unique_name: Name
) -> None:
    topic = unique_name("orders")
    writer = converter(AvroConverter)
    writer.from_connect_data(topic, V1, Struct(V1, [1, "a"]))
    _set_compatibility(registry, f"{topic}-value", "BACKWARD")
    other = V1.replace(fields=[("id", Schema.INT64), ("note", Schema.OPTIONAL_STRING), ("must", Schema.INT32)])
    with pytest.raises(SchemaError, match=rf"incompatible with an earlier one of subject {topic}-value: \S+"):
        writer.from_connect_data(topic, other, Struct(other, [1, "a", 2]))


def test_missing_schema_and_subject_are_reported(converter: CreateConverter, unique_name: Name) -> None:
    topic = unique_name("orders")
    with pytest.raises(DataError, match=rf"topic {topic} .*schema id 2000000000.*There is no schema 2000000000"):
        converter(AvroConverter).to_connect_data(topic, b"\0\x77\x35\x94\x00abc")
    unknown = converter(AvroConverter, **{"auto.register.schemas": "false", "use.latest.version": "true"})
    with pytest.raises(DataError, match=rf"There is no subject {topic}-value in the schema registry.*register it first"):
        unknown.from_connect_data(topic, V1, Struct(V1, [1, "a"]))


def test_unavailable_registry_raises_a_retriable_error(unique_name: Name) -> None:
    (port,) = free_ports(1)
    one = AvroConverter()
    one.configure({"schema.registry.url": f"http://user:hush@127.0.0.1:{port}", "max.retries": "0"}, False)
    with pytest.raises(RetriableError, match=rf"at http://127.0.0.1:{port} does not answer.*Check schema.registry.url") as failed:
        one.from_connect_data("t", Schema.INT32, 1)
    assert "hush" not in str(failed.value)
    with pytest.raises(RetriableError):
        one.to_connect_data("t", b"\0\0\0\0\x01\x02")
    one.close()


def test_references_of_avro_schemas_are_resolved(
    converter: CreateConverter, client: SchemaRegistryClient, unique_name: Name
) -> None:
    topic = unique_name("customers")
    country = '{"type":"enum","name":"Country","namespace":"shop","symbols":["DE","FR"]}'
    client.register_schema(f"{topic}-country", ClientSchema(country, "AVRO"))
    text = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"country","type":"Country"}]}'
    reference = SchemaReference(name="shop.Country", subject=f"{topic}-country", version=1)
    number = client.register_schema(f"{topic}-value", ClientSchema(text, "AVRO", [reference]))
    data = b"\0" + number.to_bytes(4, "big") + b"\x02"
    schema, value = converter(AvroConverter).to_connect_data(topic, data)
    assert value.as_dict() == {"country": "FR"}
    assert schema.version == 1


def test_avro_is_compatible_with_confluents_serializer(
    converter: CreateConverter, client: SchemaRegistryClient, unique_name: Name
) -> None:
    topic = unique_name("orders")
    ours = converter(AvroConverter)
    data = ours.from_connect_data(topic, V1, Struct(V1, [1, "ä"]))
    context = SerializationContext(topic, MessageField.VALUE)
    assert AvroDeserializer(client)(data, context) == {"id": 1, "note": "ä"}
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    theirs = AvroSerializer(client, text)({"id": 2, "note": None}, context)
    assert ours.to_connect_data(topic, theirs).value.as_dict() == {"id": 2, "note": None}


def test_json_schema_is_compatible_with_confluents_serializer(
    converter: CreateConverter, client: SchemaRegistryClient, unique_name: Name
) -> None:
    topic = unique_name("orders")
    ours = converter(JsonSchemaConverter)
    data = ours.from_connect_data(topic, V1, Struct(V1, [1, "ä"]))
    context = SerializationContext(topic, MessageField.VALUE)
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert JSONDeserializer(text, schema_registry_client=client)(data, context) == {"id": 1, "note": "ä"}
    theirs = JSONSerializer(text, client)({"id": 2, "note": None}, context)
    assert ours.to_connect_data(topic, theirs).value.as_dict() == {"id": 2, "note": None}


def test_protobuf_is_compatible_with_confluents_serializer(
    converter: CreateConverter, client: SchemaRegistryClient, unique_name: Name
) -> None:
    topic = unique_name("orders")
    ours = converter(ProtobufConverter, **{"optional.for.nullables": "true"})
    data = ours.from_connect_data(topic, V1, Struct(V1, [1, "ä"]))
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    message = GetMessageClass(proto_schema(text, {}).message([0]))
    conf = {"use.deprecated.format": False}
    # Confluent's deserializer requests the schema as a descriptor, which this registry does not support: parse only the message.
    assert data[5:6] == b"\0"
    read = message.FromString(data[6:])
    assert (read.id, read.note) == (1, "ä")
    context = SerializationContext(f"{topic}_2", MessageField.VALUE)
    theirs = ProtobufSerializer(message, client, conf)(message(id=2), context)
    assert ours.to_connect_data(f"{topic}_2", theirs).value.as_dict() == {"id": 2, "note": None}


def test_lines_round_trip_through_a_worker_as_avro(
    broker: EmbeddedBroker, registry: EmbeddedRegistry, client: SchemaRegistryClient, tmp_path: Path, unique_name: Name
) -> None:
    topic, lines = unique_name("lines"), [f"line {i} ä" for i in range(50)]
    transforms = "org.apache.kafka.connect.transforms"
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (port,) = free_ports(1)
    avro = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry.url,
    }
    worker = {"bootstrap.servers": broker.bootstrap, "listeners": f"http://127.0.0.1:{port}",
              "offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "200",
              "task.executors": "0", **avro}  # fmt: skip
    reader = {"name": "in", "connector.class": "FileStreamSource", "file": str(source), "topic": topic, "transforms": "h",
              "transforms.h.type": f"{transforms}.HoistField$Value", "transforms.h.field": "line"}  # fmt: skip
    writer = {"name": "out", "connector.class": "FileStreamSink", "file": str(sink), "topics": topic, "transforms": "e",
              "transforms.e.type": f"{transforms}.ExtractField$Value", "transforms.e.field": "line"}  # fmt: skip
    files = []
    for name, settings in (("worker", worker), ("in", reader), ("out", writer)):
        files.append(tmp_path / f"{name}.properties")
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sluice.run.standalone", *map(str, files)],
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
    try:

        def has_lines() -> bool:
            assert process.poll() is None, log.read_text()
            return sink.exists() and len(sink.read_text(encoding="utf-8").splitlines()) >= len(lines)

        eventually(has_lines, "the lines", log.read_text)
        assert sink.read_text(encoding="utf-8").splitlines() == lines
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert [field["name"] for field in json.loads(text)["fields"]] == ["line"]

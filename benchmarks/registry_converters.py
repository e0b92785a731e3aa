"""The Avro codec compared with fastavro: prints one JSON line with records per CPU second.

``fastavro`` reads and writes dicts; ``fastavro_with_structs`` also converts them from and to structs, as a converter would have
to. ``hostile`` is a five-byte payload that claims two million items without bytes: whether it is rejected, and by how many MB it
raises the peak memory of a fresh process. No registry is used: the schema is known, as after the first record of a topic.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import fastavro

from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.registry.avro.config import AvroConfig
from connectors.registry.avro.decode import compile_decoder
from connectors.registry.avro.encode import compile_encoder
from connectors.registry.avro.from_connect import avro_schema
from connectors.registry.avro.to_connect import connect_schema
from connectors.registry.avro.types import avro_text, parse_avro
from connectors.registry.varint import write_long
from connectors.registry.wire_format import PREFIX_SIZE, build_prefix

RECORDS = 2000
REPEATS = 50


def _schema() -> Schema:
    text = Schema.OPTIONAL_STRING
    return (
        SchemaBuilder(Type.STRUCT)
        .name("shop.Customer")
        .field("id", Schema.INT64)
        .field("name", text)
        .field("email", text)
        .field("age", Schema.INT32)
        .field("score", Schema.FLOAT64)
        .field("active", Schema.BOOLEAN)
        .field("created", Schema.INT64)
        .field("city", text)
        .field("visits", Schema.OPTIONAL_INT64)
        .field("note", text)
        .build()
    )


def _per_cpu_second(work: Callable[[], object]) -> int:
    work()
    started = time.process_time()
    for _ in range(REPEATS):
        work()
    return round(RECORDS * REPEATS / (time.process_time() - started))


def _in_fresh_process(codec: str) -> Any:
    command = [sys.executable, "-c", f"from benchmarks.registry_converters import read_hostile; read_hostile({codec!r})"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def read_hostile(codec: str) -> None:
    """Reads the hostile payload with one codec and prints the result as JSON."""
    text = {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}
    data = write_long(2_000_000) + b"\0"
    avro = parse_avro(json.dumps(text))
    schema = connect_schema(avro, AvroConfig())
    assert schema is not None
    decode, theirs = compile_decoder(avro, schema, False), fastavro.parse_schema(text)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rejected = False
    try:
        if codec == "ours":
            decode(data, 0)
        else:
            fastavro.schemaless_reader(io.BytesIO(data), theirs, None)
    except (DataError, EOFError, ValueError):
        rejected = True
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"rejected": rejected, "mb": (peak_kb - before_kb) // 1024}), flush=True)


def main() -> None:
    options = AvroConfig()
    schema = _schema()
    text = avro_text(avro_schema(schema, options))
    rows: list[list[Any]] = [
        [i, f"name {i}", f"user{i}@example.com", i % 90, i * 0.5, True, 1_700_000_000_000 + i, "Berlin", i * 7, "a note"]
        for i in range(RECORDS)
    ]
    structs = [Struct(schema, row) for row in rows]
    names = schema.field_names
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    prefix = build_prefix(1)
    encode = compile_encoder(schema, avro_schema(schema, options), options, False)
    parsed = parse_avro(text)
    read_schema = connect_schema(parsed, options)
    assert read_schema is not None
    decode = compile_decoder(parsed, read_schema, False)
    theirs = fastavro.parse_schema(json.loads(text))

    def bare_write() -> list[bytes]:
        made = []
        for row in dicts:
            out = io.BytesIO()
            out.write(prefix)
            fastavro.schemaless_writer(out, theirs, row)
            made.append(out.getvalue())
        return made

    def struct_write() -> list[bytes]:
        made = []
        for struct in structs:
            out = io.BytesIO()
            out.write(prefix)
            fastavro.schemaless_writer(out, theirs, dict(zip(names, struct.values, strict=True)))
            made.append(out.getvalue())
        return made

    def our_write() -> list[bytes]:
        return [prefix + data for data in encode(structs)]

    datas = bare_write()
    assert our_write() == datas == struct_write()

    def bare_read() -> list[Any]:
        made = []
        for data in datas:
            source = io.BytesIO(data)
            source.seek(PREFIX_SIZE)
            made.append(fastavro.schemaless_reader(source, theirs, None))
        return made

    def struct_read() -> list[Any]:
        return [Struct(read_schema, [row[name] for name in names]) for row in bare_read()]

    def our_read() -> list[Any]:
        return [decode(data, PREFIX_SIZE) for data in datas]

    assert [value.as_dict() for _, value in our_read()] == bare_read()
    figures = {
        "avro_write": {
            "records_per_cpu_s": _per_cpu_second(our_write),
            "fastavro": _per_cpu_second(bare_write),
            "fastavro_with_structs": _per_cpu_second(struct_write),
        },
        "avro_read": {
            "records_per_cpu_s": _per_cpu_second(our_read),
            "fastavro": _per_cpu_second(bare_read),
            "fastavro_with_structs": _per_cpu_second(struct_read),
        },
        "hostile": {codec: _in_fresh_process(codec) for codec in ("ours", "fastavro")},
    }
    print(json.dumps({"benchmark": "registry_converters", "fields": len(names), **figures}), flush=True)


if __name__ == "__main__":
    main()

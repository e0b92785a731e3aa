"""Each of Apache's transformations and predicates alone: records per CPU second, in batches of 1,000 records of ten columns, with
a schema and without. No broker, no converter.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from connect.data import Headers, Schema, Struct, Type
from connect.data.logical import decimal_schema, instant_of, timestamp_schema
from connect.plugins import Plugins
from connect.record import ConnectRecord, SourceRecord

BATCH = 1_000
_SECONDS = 0.2
_PACKAGE = "org.apache.kafka.connect.transforms"
ADDRESS = Schema(Type.STRUCT, fields=[("street", Schema.STRING), ("city", Schema.OPTIONAL_STRING)])
ROW = Schema(
    Type.STRUCT,
    name="row",
    fields=[
        ("id", Schema.INT64),
        ("first_name", Schema.STRING),
        ("last_name", Schema.OPTIONAL_STRING),
        ("email", Schema.OPTIONAL_STRING),
        ("balance", decimal_schema(2, optional=True)),
        ("score", Schema.FLOAT64),
        ("active", Schema.OPTIONAL_BOOLEAN),
        ("created_at", timestamp_schema()),
        ("visits", Schema.STRING),
        ("notes", Schema.OPTIONAL_STRING),
    ],
)
NESTED = Schema(Type.STRUCT, fields=[*((f.name, f.schema) for f in (ROW.fields or ())[:8]), ("home", ADDRESS), ("work", ADDRESS)])


@dataclass(frozen=True)
class Case:
    """One transformation: its own settings, and whether it has variants for key and value."""

    name: str
    config: Mapping[str, str] = field(default_factory=dict)
    is_sided: bool = True
    schema: Schema = ROW


CASES = (
    Case("Cast", {"spec": "id:string,visits:int32,score:float32"}),
    Case("ExtractField", {"field": "email"}),
    Case("Flatten", {"delimiter": "_"}, schema=NESTED),
    Case("HeaderFrom", {"fields": "id,email", "headers": "id,email", "operation": "move"}),
    Case("HoistField", {"field": "row"}),
    Case("InsertField", {"static.field": "origin", "static.value": "shop", "timestamp.field": "at"}),
    Case("MaskField", {"fields": "email,notes"}),
    Case("ReplaceField", {"exclude": "notes", "renames": "id:key,email:mail"}),
    Case("SetSchemaMetadata", {"schema.name": "customers"}),
    Case("TimestampConverter", {"field": "created_at", "target.type": "unix"}),
    Case("DropHeaders", {"headers": "a"}, is_sided=False),
    Case("Filter", is_sided=False),
    Case("InsertHeader", {"header": "c", "value.literal": "5"}, is_sided=False),
    Case("RegexRouter", {"regex": "(.*)s", "replacement": "$1"}, is_sided=False),
    Case("TimestampRouter", {"timestamp.format": "yyyyMMdd"}, is_sided=False),
    Case("ValueToKey", {"fields": "id,email"}, is_sided=False),
)
PREDICATES = (
    Case("HasHeaderKey", {"name": "b"}),
    Case("RecordIsTombstone"),
    Case("TopicNameMatches", {"pattern": "row.*"}),
)


def _row(i: int) -> list[Any]:
    return [
        i,
        f"first{i}",
        f"last{i}",
        f"user{i}@example.com",
        Decimal(i).scaleb(-2),
        i * 0.25,
        i % 2 == 0,
        instant_of(1_700_000_000_000 + i * 1000),
        str(i % 1000),
        "x" * 40,
    ]


def _datum(schema: Schema, i: int, *, typed: bool) -> Any:
    values = _row(i)
    if not typed:
        # As JSON without schemas gives them.
        values[4], values[7] = float(values[4]), 1_700_000_000_000 + i * 1000
    if schema is NESTED:
        homes: list[Any] = [[f"street {i}", "here"], [f"street {i + 1}", None]]
        names = ADDRESS.field_names
        values[8:] = [Struct(ADDRESS, h) if typed else dict(zip(names, h, strict=True)) for h in homes]
    return Struct(schema, values) if typed else dict(zip(schema.field_names, values, strict=True))


def _records(schema: Schema, *, typed: bool) -> list[ConnectRecord]:
    shown = schema if typed else None
    records: list[ConnectRecord] = []
    for i in range(BATCH):
        datum = _datum(schema, i, typed=typed)
        headers = Headers().add("a", 1, Schema.INT8).add("b", "text", Schema.STRING)
        at = 1_700_000_000_000 + i * 1000
        records.append(SourceRecord({}, {"at": i}, "rows", None, shown, datum, shown, datum, at, headers))
    return records


def _rate(work: Callable[[Sequence[ConnectRecord]], object], records: Sequence[ConnectRecord]) -> int:
    """Returns records per CPU second, the best of three runs."""
    work(records)
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        done = 0
        while (spent := time.process_time() - started) < _SECONDS / 3:
            work(records)
            done += len(records)
        best = max(best, done / spent)
    return round(best)


def main() -> None:
    gc.set_threshold(50_000, 20, 100)  # like a worker
    plugins = Plugins.discover()
    rates: dict[str, int] = {}
    for case in CASES:
        for side in ("$Key", "$Value") if case.is_sided else ("",):
            for typed in (True, False):
                if case.name == "SetSchemaMetadata" and not typed:
                    continue  # rejects data without a schema
                transformation = plugins.new_transformation(f"{_PACKAGE}.{case.name}{side}")
                transformation.configure(case.config)
                label = f"{case.name}{side}{'' if typed else ' schemaless'}"
                rates[label] = _rate(transformation.apply_batch, _records(case.schema, typed=typed))
    for case in PREDICATES:
        predicate = plugins.new_predicate(f"{_PACKAGE}.predicates.{case.name}")
        predicate.configure(case.config)
        rates[case.name] = _rate(predicate.test_batch, _records(case.schema, typed=True))
    slowest = min(rates, key=rates.__getitem__)
    line = {"benchmark": "transforms_alone", "batch": BATCH, "slowest": slowest, "records_per_cpu_s": rates}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

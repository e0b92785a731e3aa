"""JsonConverter without schemas, both ways, beside the plain codec: batches of 500 records, flat ones of ten columns and change
events around them; as plain values, and with a schema on Connect's side."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson

from benchmarks.measure import Figures, measure_here, report
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct

ROWS = 20_000
TIMES = 10
RECORDS = ROWS * TIMES
BATCH = 500
_TEXT, _NUMBER, _FLAG, _AMOUNT = (
    Schema(Type.STRING, optional=True),
    Schema(Type.INT64),
    Schema(Type.BOOLEAN),
    Schema(Type.FLOAT64),
)
_COLUMNS = {
    "id": _NUMBER, "name": _TEXT, "email": _TEXT, "active": _FLAG, "score": _AMOUNT,
    "city": _TEXT, "zip": _NUMBER, "note": _TEXT, "changed_at": _NUMBER, "quantity": _NUMBER,
}  # fmt: skip
_SOURCE = {"db": _TEXT, "table": _TEXT, "lsn": _NUMBER, "snapshot": _TEXT}


def _struct(members: dict[str, Schema], *, optional: bool = False) -> Schema:
    builder = SchemaBuilder.struct()
    for name, schema in members.items():
        builder.field(name, schema)
    return (builder.optional() if optional else builder).build()


ROW = _struct(_COLUMNS)
ROW_OR_NOTHING = _struct(_COLUMNS, optional=True)
SOURCE = _struct(_SOURCE)
EVENT = _struct({"before": ROW_OR_NOTHING, "after": ROW_OR_NOTHING, "source": SOURCE, "op": _TEXT, "ts_ms": _NUMBER})


def _rows() -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [
        {
            "id": i,
            "name": f"customer {i}",
            "email": f"c{i}@example.com",
            "active": i % 2 == 0,
            "score": chance.random() * 100,
            "city": "Zürich",
            "zip": chance.randrange(10_000, 99_999),
            "note": "some longer text" if i % 3 else None,
            "changed_at": 1_700_000_000_000 + i,
            "quantity": chance.randrange(100),
        }
        for i in range(ROWS)
    ]


def _event(row: dict[str, Any]) -> dict[str, Any]:
    source = {"db": "shop", "table": "customers", "lsn": row["changed_at"], "snapshot": "false"}
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": row["changed_at"]}


def _structs(schema: Schema, value: Any) -> Any:
    if schema.type is not Type.STRUCT or value is None:
        return value
    return Struct(schema, [_structs(field.schema, value[field.name]) for field in schema.fields or ()])


def _measured(values: Sequence[Any], work: Callable[[Sequence[Any]], object]) -> Figures:
    batches = [values[start : start + BATCH] for start in range(0, len(values), BATCH)]

    def run() -> None:
        for _ in range(TIMES):
            for batch in batches:
                work(batch)

    return measure_here(RECORDS, run)


def main() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    ways: dict[str, dict[str, float]] = {}
    totals = [Figures(0, 0.0, 0.0, 0.0), Figures(0, 0.0, 0.0, 0.0)]
    rows = _rows()
    for name, values, schema in (("row", rows, ROW), ("event", [_event(row) for row in rows], EVENT)):
        payloads = [orjson.dumps(value) for value in values]
        structs = [_structs(schema, value) for value in values]
        bare_write = _measured(values, lambda batch: [orjson.dumps(value) for value in batch])
        bare_read = _measured(payloads, lambda batch: [orjson.loads(payload) for payload in batch])
        pairs = {
            f"write_{name}": (_measured(values, lambda batch: converter.encode_batch("t", None, batch)), bare_write),
            f"write_{name}_struct": (
                _measured(structs, partial(converter.encode_batch, "t", schema)),
                bare_write,
            ),
            f"read_{name}": (_measured(payloads, lambda batch: converter.decode_batch("t", batch)), bare_read),
        }
        for way, pair in pairs.items():
            ours, plain = pair
            ways[way] = {
                "us_per_record": round(ours.cpu_s / RECORDS * 1e6, 2),
                "codec_us_per_record": round(plain.cpu_s / RECORDS * 1e6, 2),
                "times_codec": round(ours.cpu_s / plain.cpu_s, 2),
            }
            totals = [_added(total, one) for total, one in zip(totals, pair, strict=True)]
    report("json_converter", totals[0], totals[1], ways=ways)


def _added(total: Figures, one: Figures) -> Figures:
    peak_mb = max(total.peak_rss_mb, one.peak_rss_mb)
    return Figures(total.records + one.records, total.wall_s + one.wall_s, total.cpu_s + one.cpu_s, peak_mb)


if __name__ == "__main__":
    main()

"""Plain functions as transformations, beside the same functions called with nothing around them: records per CPU second, in
batches of 1,000 records of ten columns, with a schema and without. No broker, no converter.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from connect.data import Schema, Struct, Type
from connect.functions.transformation import PythonTransformation
from connect.record import ConnectRecord, SourceRecord

BATCH = 1_000
_SECONDS = 0.3
_COLUMNS = [(f"n{i}", Schema.INT64) for i in range(7)] + [(f"t{i}", Schema.STRING) for i in range(3)]
ROW = Schema(Type.STRUCT, fields=_COLUMNS)


def change_two(value: dict[str, Any]) -> dict[str, Any]:
    value["n1"] = value["n1"] * 2
    value["t1"] = value["t1"].upper()
    return value


def add_one(value: dict[str, Any]) -> dict[str, Any]:
    value["total"] = value["n1"] * value["n2"]
    value["t1"] = value["t1"].upper()
    return value


def add_to_all(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [add_one(value) for value in values]


def keep(record: ConnectRecord) -> ConnectRecord:
    return record


def _values(i: int) -> list[Any]:
    return [*range(i, i + 7), f"first{i}", f"last{i}", "x" * 40]


def _record(i: int, *, typed: bool) -> ConnectRecord:
    value = Struct(ROW, _values(i)) if typed else dict(zip(ROW.field_names, _values(i), strict=True))
    return SourceRecord({}, {"at": i}, "rows", value_schema=ROW if typed else None, value=value)


def _rate(work: Callable[[], object]) -> int:
    """Returns records per CPU second, the best of three runs."""
    work()
    best = 0.0
    for _ in range(3):
        started, done = time.process_time(), 0
        while (spent := time.process_time() - started) < _SECONDS:
            work()
            done += BATCH
        best = max(best, done / spent)
    return round(best)


def main() -> None:
    gc.set_threshold(50_000, 20, 100)  # like a worker
    rates: dict[str, int] = {}
    rows = [dict(zip(ROW.field_names, _values(i), strict=True)) for i in range(BATCH)]
    rates["add_one, bare, each on a copy"] = _rate(lambda: [add_one(row.copy()) for row in rows])
    for function in (change_two, add_one, add_to_all, keep):
        transformation = PythonTransformation()
        transformation.configure({"function": f"benchmarks.functions_alone:{function.__name__}"})
        for typed in (True, False):
            records = [_record(i, typed=typed) for i in range(BATCH)]
            label = f"{function.__name__}{'' if typed else ' schemaless'}"
            rates[label] = _rate(partial(transformation.apply_batch, records))
    print(json.dumps({"benchmark": "functions_alone", "batch": BATCH, "records_per_cpu_s": rates}), flush=True)


if __name__ == "__main__":
    main()

"""A backlog through transformations in Spark's executors: computed by Spark SQL, beside row by row in Python.

1,000,000 rows of JSON with schemas in two partitions (``SLUICE_BENCH_RECORDS``), with a chain of five transformations and with
one, appended to a Delta table by ``spark.engine=executors``. Figures are those between the first and the last commit, without
the start of Spark, but with the time until its code is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.environment import BenchmarkEnvironment, environment
from benchmarks.lake_events import EventFormat, Message, produce
from benchmarks.lake_worker import create_topics, follow_load, lake_worker, number, sink
from benchmarks.measure import Figures, report

RECORDS = number("RECORDS", 1_000_000)
_COMMITS = 8
_TOPIC = "orders"
_APACHE = "org.apache.kafka.connect.transforms."
_CHAINS = {
    "one_step": {
        "transforms": "insert",
        "transforms.insert.type": f"{_APACHE}InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "shop",
    },
    "five_steps": {
        "transforms": "replace,created,cast,mask,insert",
        "transforms.replace.type": f"{_APACHE}ReplaceField$Value",
        "transforms.replace.exclude": "internal",
        "transforms.replace.renames": "qty:quantity",
        "transforms.created.type": f"{_APACHE}TimestampConverter$Value",
        "transforms.created.field": "created",
        "transforms.created.target.type": "Timestamp",
        "transforms.cast.type": f"{_APACHE}Cast$Value",
        "transforms.cast.spec": "active:string,quantity:int64",
        "transforms.mask.type": f"{_APACHE}MaskField$Value",
        "transforms.mask.fields": "email",
        "transforms.insert.type": f"{_APACHE}InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "shop",
        "transforms.insert.timestamp.field": "received",
    },
}
_FIELDS = [("seq", "int64", False), ("name", "string", False), ("email", "string", True), ("qty", "int32", False),
           ("price", "double", False), ("created", "int64", False), ("note", "string", True), ("active", "boolean", False),
           ("internal", "string", True)]  # fmt: skip
_SCHEMA = {"type": "struct", "optional": False, "name": "shop.Order",
           "fields": [{"type": t, "optional": o, "field": n} for n, t, o in _FIELDS]}  # fmt: skip


def _messages() -> Iterator[Message]:
    prefix = b'{"schema":' + json.dumps(_SCHEMA, separators=(",", ":")).encode() + b',"payload":'
    for n in range(1, RECORDS + 1):
        row = {"seq": n, "name": f"order {n}", "email": f"user{n % 997}@example.com", "qty": n % 90, "price": (n % 800) / 8,
               "created": 1_700_000_000_000 + n, "note": None if n % 3 else "a note of some length", "active": n % 2 == 0,
               "internal": "dropped"}  # fmt: skip
        key = b'{"schema":{"type":"int64","optional":false},"payload":%d}' % n
        yield Message(key, prefix + json.dumps(row, separators=(",", ":")).encode() + b"}")


def _load(here: BenchmarkEnvironment, form: EventFormat, chain: str, *, in_sql: bool) -> tuple[Figures, dict[str, Any]]:
    lake = here.home / f"{chain}-{in_sql}"
    settings = {
        **_CHAINS[chain],
        "spark.engine": "executors",
        "executors.max.records": str(RECORDS // _COMMITS),
        "executors.sql.transforms": "always" if in_sql else "never",
    }
    # A connector of its own, whose group begins at the first record.
    with lake_worker(here, form, [sink(lake.name, [_TOPIC], lake, "append", 10_000, **settings)], lake) as worker:
        flow = follow_load(worker, worker.log(_TOPIC), RECORDS)
        return worker.process.figures(RECORDS), flow.as_dict()


def main() -> None:
    form = EventFormat(schemas=True)
    with environment() as here:
        create_topics(here, [_TOPIC], 2)
        size = produce(here.producer(**{"compression.type": "lz4"}), _TOPIC, _messages())
        found: dict[str, Any] = {}
        figures, found["five_steps_sql"] = _load(here, form, "five_steps", in_sql=True)
        peer, found["five_steps_by_row"] = _load(here, form, "five_steps", in_sql=False)
        _, found["one_step_sql"] = _load(here, form, "one_step", in_sql=True)
        _, found["one_step_by_row"] = _load(here, form, "one_step", in_sql=False)
        report("lake_transforms", figures, peer, bytes_per_record=size, **found)


if __name__ == "__main__":
    main()

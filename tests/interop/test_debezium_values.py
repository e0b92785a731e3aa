"""Values and schemas of columns are those that Debezium writes, in each of its handling modes."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.topics import read_topic
from tests.integration.postgres.conftest import Source
from tests.interop.debezium_worker import DebeziumWorker
from tests.support.waiting import Deadline, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
_RESTORES = "restore.debezium.events"
_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}

MODES = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds", "structured")
REFUSED = {
    "connect": {"infinity", "-infinity", "0044-03-15 BC", "12026-01-01", "24:00:00"},
    "nanoseconds": {"1500-02-03 01:02:03.4"},
    "structured": {"24:00:00"},
    "precise": {"7.50"},
}
"""Values that do not fit, and trailing zeros: Debezium writes null or another value, and we fail or write the right one."""
IN_SNAPSHOTS = {"infinity", "-infinity", "0044-03-15 BC"}
"""Dates that Debezium's snapshots write wrongly, unlike its stream."""
TIMES = {
    "d": ("date", ["2026-11-23", "infinity", "-infinity", "0044-03-15 BC", "12026-01-01"]),
    "t": ("time", ["12:34:56.123456", "00:00:00", "24:00:00"]),
    "t3": ("time(3)", ["12:34:56.123"]),
    "t0": ("time(0)", ["12:34:56"]),
    "ts": ("timestamp", ["2026-11-23 12:34:56.123456", "-infinity", "infinity", "1500-02-03 01:02:03.4", "2026-11-23 12:34:00"]),
    "ts3": ("timestamp(3)", ["2026-11-23 12:34:56.123", "infinity", "-infinity"]),
    "ts0": ("timestamp(0)", ["2026-11-23 12:34:56"]),
    "tz": (
        "timestamptz",
        [
            "2026-11-23 12:34:56.123456+02",
            "2026-11-23 12:34:56.12+02",
            "2026-11-23 12:34:56+02",
            "2026-11-23 12:34:00+02",
            "infinity",
            "0044-03-15 01:02:03+00 BC",
        ],
    ),
    "tz3": ("timestamptz(3)", ["2026-11-23 12:34:56.12+02", "2026-11-23 12:34:56+02", "2026-11-23 12:34:00+02", "infinity"]),
    "tz0": ("timestamptz(0)", ["2026-11-23 12:34:56+02", "2026-11-23 12:34:00+02"]),
    "tz6": ("timestamptz(6)", ["2026-11-23 12:34:56.12+02", "2026-11-23 12:34:56+02", "2026-11-23 12:34:00+02"]),
    "tz1": ("timestamptz(1)", ["2026-11-23 12:34:56.1+02", "2026-11-23 12:34:56+02", "2026-11-23 12:34:00+02"]),
    "ttz": ("timetz", ["12:34:56.123456+02", "01:02:03-11:30"]),
    "ttz3": ("timetz(3)", ["12:34:56.12+02", "12:34:00+00"]),
    "ttz0": ("timetz(0)", ["12:34:56+02", "12:34:00+00"]),
    "i": ("interval", ["1 year 2 mons 3 days 04:05:06.78", "-3 days -00:00:01.5", "0"]),
    "required_d": ("date not null default '2020-02-02'", ["2026-11-23"]),
    "required_ts": ("timestamp not null default now()", ["2026-11-23 12:34:56.123456"]),
    "required_i": ("interval not null default '1 hour'", ["1 day"]),
    "ds": ("date[]", ["{2026-11-23,NULL}"]),
    "tzs": ("timestamptz[]", ["{2026-11-23 12:34:56.12+02}"]),
    "ttzs": ("timetz[]", ["{12:34:56.12+02}"]),
    "tss": ("timestamp[]", ["{2026-11-23 12:34:56.123456}"]),
}


NUMBERS = {
    "n": ("numeric", ["7.50", "-100", "0", "0.000000001", "1.25", "12345678901234567890.5"]),
    "n2": ("numeric(10,2)", ["1.50", "-12345678.90", "0"]),
    "n8": ("numeric(18,8) not null default 0", ["0", "1.00000001", "-9999999999.99999999"]),
    "m": ("money", ["12.34", "-0.01", "0"]),
    "r": ("real", ["1.5", "0.1", "-3.4e38"]),
    "f": ("double precision", ["0.1", "-1.7976931348623157e308", "1e-7", "100"]),
    "i2": ("smallint default 7", ["-32768"]),
    "i8": ("bigint", ["9223372036854775807"]),
    "o": ("oid", ["4294967295"]),
    "b": ("boolean not null default true", ["false", "true"]),
    "ns": ("numeric(6,2)[]", ["{1.50,NULL,-0.01}", "{}"]),
    "fs": ("double precision[]", ["{0.1,1e10}"]),
    "bs": ("boolean[]", ["{t,f,NULL}"]),
}
BYTES = {
    "b": ("bytea", ["\\x00ff7f80", "\\x", "\\xfbff"]),
    "b1": ("bit(1)", ["1", "0"]),
    "b5": ("bit(5)", ["10110", "00000"]),
    "b16": ("bit(16)", ["0000000000000001", "1000000000000000", "0000000000000000"]),
    "bn": ("bit(70)", ["1" * 70, "0" * 69 + "1"]),
    "v": ("varbit(12)", ["101", "", "000000000000", "000000000001", "0000"]),
    "bs": ("bytea[]", ['{"\\\\x00ff",NULL}']),
}
TEXTS = {
    "t": ("text not null default 'it''s'", ["a\tb", "", "\u00e4\u20ac\U0001f600", "\\N"]),
    "c": ("char(5)", ["ab"]),
    "v": ("varchar(10)", ["x"]),
    "q": ('"char"', ["a"]),
    "j": ("json", ['{"a": [1, 2.50, null]}']),
    "jb": ("jsonb default '{}'", ['{"a": [1, 2.50, null]}']),
    "u": ("uuid default gen_random_uuid()", ["123e4567-e89b-12d3-a456-426614174000"]),
    "i": ("inet", ["10.0.0.1/24", "::1"]),
    "ci": ("cidr", ["10.0.0.0/24"]),
    "ma": ("macaddr", ["08:00:2b:01:02:03"]),
    "ts": ("tsvector", ["a fat cat"]),
    "ir": ("int4range", ["[1,5)", "empty"]),
    "tr": ("tstzrange", ["[2026-11-23 12:34:56+00,)"]),
    "ts_": ("text[]", ['{"a,b","",NULL,"\\"q"}']),
    "us": ("uuid[]", ["{123e4567-e89b-12d3-a456-426614174000}"]),
    "p": ("point", ["(1.5,-2)"]),
}
DOMAINS = """
    DROP DOMAIN IF EXISTS positive, short, amount, day, names CASCADE; DROP TYPE IF EXISTS mood CASCADE;
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE DOMAIN positive AS int CHECK (value > 0); CREATE DOMAIN short AS varchar(8); CREATE DOMAIN amount AS numeric(8,3);
    CREATE DOMAIN day AS date; CREATE DOMAIN names AS text[]
"""
OTHERS = {
    "dp": ("positive default 3", ["5"]),
    "ds": ("short not null default 'x'", ["abc"]),
    "da": ("amount not null default 1.5", ["1.5", "-12345.678"]),
    "dd": ("day default '2020-02-02'", ["2026-11-23"]),
    "dn": ("names", ["{a,NULL}"]),
    "e": ("mood default 'ok'", ["sad", "ok"]),
    "m8": ("macaddr8", ["08:00:2b:01:02:03:04:05"]),
    "nr": ("numrange", ["[1.50,2)"]),
    "dr": ("daterange", ["[2026-01-01,2026-02-01)"]),
    "i8r": ("int8range", ["(,5)"]),
    "tsr": ("tsrange", ["[2026-11-23 12:34:56,)"]),
    "i2s": ("smallint[]", ["{1,2}"]),
    "vs": ("varchar(5)[]", ["{a,bc}"]),
    "cs": ("char(3)[]", ["{a,bc}"]),
    "qd": ("\"char\" not null default 'a'", ["b"]),
    "md": ("money not null default '1.5'", ["2"]),
    "td": ("timetz not null default '01:02:03+00'", ["01:02:03+00"]),
    "cd": ("cidr not null default '10.0.0.0/8'", ["10.0.0.0/8"]),
    "ip": ("inet not null default '10.0.0.1'", ["10.0.0.2"]),
    "bd": ("bytea not null default '\\x00'", ["\\x01"]),
    "od": ("oid not null default 5", ["6"]),
    "rd": ("int4range not null default '[1,2)'", ["[1,3)"]),
    "fd": ("double precision not null default '-1e3'", ["1"]),
    "vd": ("varbit not null default '1'", ["11"]),
    "js": ("jsonb[]", ['{"{\\"a\\": 1}"}']),
}
RESTORED = {
    "n": ("numeric", ["7.50", "-100", "0", "0.00", "1.25", "12345678901234567890.50", "0.000000001"]),
    "nn": ("numeric not null default 1.50", ["7.50", "-100"]),
    "ns": ("numeric[]", ["{7.50,NULL,-100}"]),
    "t": ("time", ["24:00:00", "12:34:56.5"]),
    "es": ("mood[]", ["{sad,NULL}", "{sad,ok}", "{}"]),
}
MASKED = {
    "a": ("text", ["secret", ""]),
    "b": ("varchar(20) not null default 'secret'", ["secret"]),
    "c": ("text", ["a long text", "x"]),
    "d": ("text", ["hashed"]),
    "e": ("int", ["5"]),
}
MASKS = {
    "column.mask.with.5.chars": "public.t.a,public.t.b",
    "column.truncate.to.3.chars": "public.t.c",
    "column.mask.hash.v2.SHA-256.with.salt.pepper": "public.t.d",
    "column.propagate.source.type": "public.t.*",
}
Columns = Mapping[str, tuple[str, list[str]]]
"""The type of each column, and values."""


def in_one_table(**sets: Columns) -> Columns:
    """Columns of several sets, whose names begin with that of their set."""
    return {f"{name}_{column}": of_column for name, columns in sets.items() for column, of_column in columns.items()}


# Each mode concerns one set of columns, so that one connector serves a mode of each kind.
TOGETHER = in_one_table(time=TIMES, number=NUMBERS, byte=BYTES)
HANDLING = zip(
    MODES,
    itertools.cycle(("numeric", "string")),
    itertools.cycle(("precise", "double", "string")),
    itertools.cycle(("bytes", "base64", "base64-url-safe", "hex")),
    strict=False,
)
CASES: Sequence[tuple[Mapping[str, str], Columns]] = (
    *(
        (
            {
                "time.precision.mode": times,
                "interval.handling.mode": intervals,
                "decimal.handling.mode": decimals,
                "binary.handling.mode": binary,
            },
            TOGETHER,
        )
        for times, intervals, decimals, binary in HANDLING
    ),
    ({}, in_one_table(text=TEXTS, other=OTHERS)),
    ({_RESTORES: "numeric_zeros,time_24_00,enum_array_nulls", "time.precision.mode": "structured"}, RESTORED),
    ({"include.unknown.datatypes": "true"}, OTHERS),
    (MASKS, MASKED),
)


@pytest.fixture
def source(postgres: EmbeddedPostgres, database: str) -> Iterator[Source]:
    made = Source(postgres, database)
    yield made
    made.kill()


def insert_rows(db: Any, columns: Columns, first: int) -> int:
    """Inserts rows that together have each value once or more. Returns their number."""
    rows = max(len(values) for _, values in columns.values())
    for i in range(rows):
        values = [first + i, *(values[i % len(values)] for _, values in columns.values())]
        db.execute(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(values))})", values)
    db.execute(f"INSERT INTO t(id) VALUES ({first + rows})")
    return rows + 1


def test_values_are_debeziums(source: Source, tmp_path: Path, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    """With their schemas and defaults, in snapshots and in the stream."""
    worker = DebeziumWorker(tmp_path / "debezium", broker, "values")
    worker.start()
    try:
        with source.sql() as db:
            for case in CASES:
                columns = ", ".join(f"{name} {type_}" for name, (type_, _) in case[1].items())
                db.execute(f"DROP TABLE IF EXISTS t; {DOMAINS}; CREATE TABLE t(id int PRIMARY KEY, {columns})")
                compare(source, worker, broker, db, *case, unique_name("shop"))
    finally:
        worker.kill()


def compare(
    source: Source,
    worker: DebeziumWorker,
    broker: EmbeddedBroker,
    db: Any,
    settings: Mapping[str, str],
    columns: Columns,
    prefix: str,
) -> None:
    slot = prefix.replace("-", "_")
    known = set() if _RESTORES in settings else {value for mode in settings.values() for value in REFUSED.get(mode, ())}
    source.offsets.stored = None
    common = {"topic.prefix": prefix, "event.converting.failure.handling.mode": "skip"}
    before = source.config
    source.config = {**before, **common, **settings}
    config = {**source.config, "connector.class": _CLASS, "slot.name": slot, "slot.drop.on.stop": "true", **_JSON}
    count = insert_rows(db, columns, 1)
    worker.client.create(prefix, config)

    def debezium(number: int) -> list[Any]:
        deadline = Deadline(f"{number} events", worker.log_tail)
        while len(found := [message.json for message in read_topic(broker.bootstrap, f"{prefix}.public.t")]) < number:
            deadline.check()
            time.sleep(0.1)
        return found

    debezium(count)
    is_active = "select 1 from pg_replication_slots where slot_name = %s and active"
    eventually(lambda: db.execute(is_active, [slot]).fetchone(), "the slot", worker.log_tail)
    source.start()
    records = source.until("streaming")
    insert_rows(db, columns, 101)
    records += source.read(count)
    theirs = debezium(2 * count)
    worker.client.delete(prefix)
    source.kill()
    source.drop_slot()
    source.config = before
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, False)
    ours = [json.loads(converter.from_connect_data("t", r.value_schema, r.value) or b"") for r in records]
    assert len(ours) == len(theirs) == 2 * count
    different = []
    for one, other in zip(ours, theirs, strict=True):
        assert _row_fields(one) == _row_fields(other), settings
        op, number = other["payload"]["op"], other["payload"]["after"]["id"]
        for name, (_, values) in columns.items():
            value = values[(number - 1) % 100 % len(values)] if (number - 1) % 100 < count - 1 else None
            found = one["payload"]["after"][name], other["payload"]["after"][name]
            is_known = value in known or (op == "r" and name == "time_d" and value in IN_SNAPSHOTS)
            if found[0] != found[1] and not is_known:
                different.append((op, name, value, *found))
    assert not different, settings


def _row_fields(message: Any) -> Any:
    return next(field for field in message["schema"]["fields"] if field["field"] == "after")["fields"]

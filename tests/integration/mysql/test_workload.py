"""Random transactions, with restarts of the task at random offsets, replay to the tables of the database."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from connect.record import SourceRecord
from tests.integration.mysql.conftest import MariaDbRunningSource

_ROUNDS = 25
_LAST = 1_000_000
"""The key of the last row."""


class _Replay:
    """The rows of tables by their keys, as change events say. Repeated events change nothing."""

    def __init__(self, database: str) -> None:
        self._prefix = f"shop.{database}."
        self.rows: dict[str, dict[int, Any]] = {"a": {}, "b": {}}

    def apply(self, records: list[SourceRecord]) -> None:
        for record in records:
            rows = self.rows[record.topic.removeprefix(self._prefix)]
            key = record.key["id"]
            if record.value is None or record.value["after"] is None:
                rows.pop(key, None)
            else:
                rows[key] = record.value["after"].as_dict()


def _statement(rng: random.Random) -> str:
    table, id = rng.choice("ab"), rng.randrange(40)
    match rng.randrange(6):
        case 0:
            return f"replace into {table} (id, n) select seq, seq * {id} from seq_{id}_to_{id + rng.randrange(1, 30)}"
        case 1:
            return f"insert ignore into {table} (id, n) values ({id}, {rng.randrange(1000)})"
        case 2:
            return f"update {table} set n = coalesce(n, 0) + 1 where id % {rng.randrange(1, 7)} = 0"
        case 3:
            return f"update ignore {table} set id = id + {rng.randrange(100, 200)} where id = {id} limit 1"
        case 4:
            return f"delete from {table} where id between {id} and {id + rng.randrange(4)}"
    return f"update {table} set text = repeat('{rng.choice('xyz')}', {rng.randrange(300)}) where id < {id}"


@pytest.mark.parametrize("seed", range(3))
def test_replayed_changes_equal_the_tables(source: MariaDbRunningSource, seed: int) -> None:
    rng = random.Random(seed)
    for table in "ab":
        source.sql(f"create table {table}(id int primary key, n int, text varchar(300))")
    source.begin(max_batch_size="7", gtid_ignore_on_recovery=str(seed == 1).lower())
    replay = _Replay(source.database)
    columns = 0
    for _ in range(_ROUNDS):
        with source.server.connect(source.database, autocommit=False) as connection, connection.cursor() as cursor:
            for _ in range(rng.randrange(1, 6)):
                cursor.execute(_statement(rng))
            connection.rollback() if rng.random() < 0.15 else connection.commit()
        if rng.random() < 0.15:
            columns += 1
            source.sql(f"alter table {rng.choice('ab')} add c{columns} int default {columns}", "flush binary logs")
        for _ in range(rng.randrange(4)):
            replay.apply(records := source.poll())
            if records and rng.random() < 0.3:
                source.store(rng.choice(records))
                source.kill()
                source.start()
    source.sql(f"insert into a (id) values ({_LAST})")
    deadline = time.monotonic() + 60
    while _LAST not in replay.rows["a"]:
        assert time.monotonic() < deadline
        replay.apply(source.poll())
    for table in "ab":
        names = [row[0] for row in source.sql(f"show columns from {table}")]
        found = {row[0]: row for row in source.sql(f"select * from {table}")}
        assert found.keys() == replay.rows[table].keys()
        for id, row in found.items():
            # A default that ALTER TABLE adds to existing rows is no change in the log.
            seen = replay.rows[table][id]
            assert {name: value for name, value in zip(names, row, strict=True) if name in seen} == seen

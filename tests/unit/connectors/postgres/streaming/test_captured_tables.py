"""Keys of streamed relations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.streaming.captured_tables import merge_relation, sends_key
from connectors.postgres.streaming.pgoutput import Relation, RelationColumn


def relation(identity: str, *flagged: str) -> Relation:
    columns = tuple(RelationColumn(name in flagged, name, 23, -1) for name in ("id", "code", "n"))
    return Relation(1, "public", "t", identity, columns)


def catalog(*key: str) -> CapturedTable:
    columns = tuple(CapturedColumn(name, 23, -1, True, None) for name in ("id", "code", "n"))
    return CapturedTable(1, "public", "t", columns, key, "d", "r", -1)


def key(sent: Relation, current: CapturedTable | None) -> tuple[str, ...]:
    return merge_relation(sent, current, None).key


def test_the_replica_identity_of_the_row_decides_about_the_key() -> None:
    assert key(relation("d", "id"), catalog("id")) == ("id",)
    assert key(relation("i", "code"), catalog("id")) == ("code",)
    assert key(relation("d", "id"), catalog("code")) == ("id",)
    assert key(relation("i", "id", "code"), catalog("code", "id")) == ("code", "id")


def test_a_relation_that_sends_whole_rows_has_the_key_of_the_catalog() -> None:
    assert key(relation("f", "id", "code", "n"), catalog("n")) == ("n",)
    assert key(relation("d"), catalog("n")) == ("n",)
    assert key(relation("f", "id", "code", "n"), None) == ()


def test_a_relation_sends_the_record_key_or_not() -> None:
    rows: Any = SimpleNamespace(key=("code",))
    assert not sends_key(relation("d", "id"), rows)
    assert sends_key(relation("i", "code"), rows)
    assert sends_key(relation("f", "id", "code", "n"), rows)
    assert sends_key(relation("n"), rows)

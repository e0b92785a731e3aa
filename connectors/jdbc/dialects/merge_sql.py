"""Upserts for databases with MERGE instead of ON CONFLICT; the statements of Confluent's and Aiven's connectors.

All names are already quoted. ``marks`` has the parameter marks of the keys, then those of the other columns. Columns that a
record does not have keep their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.jdbc.sql import Bind, Sql, joined

Mark = Sql | Bind | str


def merge_from_select(table: str, keys: Sequence[str], others: Sequence[str], marks: Sequence[Mark], *, hold_lock: bool) -> Sql:
    """For SQL Server (with HOLDLOCK, or two sessions that merge one key at the same time both insert) and Sybase."""
    named = joined(", ", [Sql(mark, f" AS {name}") for mark, name in zip(marks, [*keys, *others], strict=True)])
    lock = "with (HOLDLOCK) " if hold_lock else ""
    merge = Sql(f"merge into {table} {lock}AS target using (select ", named, ") AS incoming on (")
    merge += " and ".join(f"target.{key}=incoming.{key}" for key in keys) + ")"
    if others:
        merge += " when matched then update set " + ",".join(f"{name}=incoming.{name}" for name in others)
    columns = [*others, *keys]
    return merge + (f" when not matched then insert ({', '.join(columns)}) "
                    f"values ({','.join(f'incoming.{name}' for name in columns)});")  # fmt: skip


def merge_from_dual(table: str, keys: Sequence[str], others: Sequence[str], marks: Sequence[Mark]) -> Sql:
    """For Oracle."""
    named = joined(", ", [Sql(mark, f" {name}") for mark, name in zip(marks, [*keys, *others], strict=True)])
    merge = Sql(f"merge into {table} using (select ", named, " FROM dual) incoming on(")
    merge += " and ".join(f"{table}.{key}=incoming.{key}" for key in keys) + ")"
    if others:
        merge += " when matched then update set " + ",".join(f"{table}.{name}=incoming.{name}" for name in others)
    columns = [*others, *keys]
    qualified = ",".join(f"{table}.{name}" for name in columns)
    return merge + f" when not matched then insert({qualified}) values({','.join(f'incoming.{name}' for name in columns)})"


def merge_from_values(table: str, keys: Sequence[str], others: Sequence[str], marks: Sequence[Mark]) -> Sql:
    """For Db2 and Derby."""
    columns = [*keys, *others]
    merge = Sql(f"merge into {table} using (values(", joined(", ", list(marks)), f")) as DAT({', '.join(columns)}) on ")
    merge += " and ".join(f"{table}.{key}=DAT.{key}" for key in keys)
    if others:
        merge += " when matched then update set " + ", ".join(f"{table}.{name}=DAT.{name}" for name in others)
    columns = [*others, *keys]
    qualified = ",".join(f"{table}.{name}" for name in columns)
    return merge + f" when not matched then insert({qualified}) values({','.join(f'DAT.{name}' for name in columns)})"


def upsert_with_primary_key(table: str, columns: Sequence[str], marks: Sequence[Mark]) -> Sql:
    """For SAP HANA."""
    return Sql(f"UPSERT {table}({','.join(columns)}) VALUES(", joined(",", list(marks)), ") WITH PRIMARY KEY")

"""The tables that a publication lists."""

from __future__ import annotations

from connectors.cdc.config.capture import CaptureSettings
from connectors.cdc.schema.filters import Filters
from connectors.postgres.schema.catalog import CatalogTable
from connectors.postgres.streaming.publications import publication_targets

# p has the partitions p1 and q; q has the partition q1; r has none.
KINDS = {"p": "p", "p1": "r", "q": "p", "q1": "r", "r": "p", "t": "r"}
OIDS = {name: oid for oid, name in enumerate(KINDS)}
PARENTS = {OIDS[child]: OIDS[parent] for child, parent in (("p1", "p"), ("q", "p"), ("q1", "q"))}
TABLES = [
    CatalogTable(OIDS[name], "public", name, kind, "d", -1, is_partition=OIDS[name] in PARENTS) for name, kind in KINDS.items()
]


def targets(*include: str) -> list[str]:
    filters = Filters(CaptureSettings(table_include=tuple(f"public.{name}" for name in include)))
    return [table.name for table in publication_targets(TABLES, PARENTS, filters)]


def test_a_partitioned_table_stands_for_its_partitions() -> None:
    assert targets() == ["p", "r", "t"]
    assert targets("p.*") == ["p"]
    assert targets("p1", "q1") == ["p"]
    assert targets("q1", "t") == ["q", "t"]
    assert targets("r") == ["r"]


def test_some_of_the_partitions_are_listed_themselves() -> None:
    assert targets("p1") == ["p1"]
    assert targets("p1", "t") == ["p1", "t"]

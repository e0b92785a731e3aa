"""How a Delta table divides its rows among files: by partition or by cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.spark.plan.evolution import Columns, arrow_type
from connectors.spark.plan.stored_variants import for_file
from connectors.spark.tables.files.partition_values import PartitionValues, value_text

CLUSTERING_DOMAIN = "delta.clustering"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table, and those that place a row: a table has partition or clustering columns, or neither."""

    columns: Columns = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()

    @property
    def file_columns(self) -> Columns:
        """The columns of data files: without partition columns, whose values are in the log."""
        return {name: type_ for name, type_ in self.columns.items() if name not in self.partition_columns}

    def has_columns(self, schema: pa.Schema) -> bool:
        """Whether the table has these columns with these types. A file with others would make it unreadable."""
        return all(self.columns.get(member.name) == member.type for member in schema)

    def split(self, rows: pa.Table) -> Iterator[tuple[PartitionValues, pa.Table]]:
        """Rows by partition, each in their order, with the texts of the partition's values."""
        if not self.partition_columns:
            yield {}, rows
            return
        if not rows.num_rows:
            return
        codes, texts = _partition_codes(rows, self.partition_columns)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
        for start, end in zip(starts, np.r_[starts[1:], len(order)], strict=True):
            at = order[start:end]
            values = {name: text[at[0]] for name, text in zip(self.partition_columns, texts, strict=True)}
            yield values, rows if len(at) == rows.num_rows else rows.take(pa.array(at))

    def file_rows(self, rows: pa.Table) -> pa.Table:
        """Rows as a data file has them."""
        rows = for_file(rows)
        if not self.partition_columns:
            return rows
        kept = [name for name in rows.column_names if name not in self.partition_columns]
        if kept or not rows.num_columns:
            return rows.select(kept)
        # A Parquet file without columns would not know how many rows it has.
        name, type_ = next(iter(self.file_columns.items()))
        return pa.table({name: pa.nulls(rows.num_rows, type_)})


def _partition_codes(rows: pa.Table, columns: Sequence[str]) -> tuple[Any, list[Any]]:
    """A number by row, equal in rows of one partition, and by column the texts of the rows."""
    codes = np.zeros(rows.num_rows, np.int64)
    texts = []
    for name in columns:
        if name not in rows.column_names:
            texts.append(np.full(rows.num_rows, None, object))
            continue
        encoded = rows[name].combine_chunks().dictionary_encode("encode")
        found = [value_text(value) for value in encoded.dictionary]
        # Different values may have the same text, such as null and empty text.
        numbers = {text: number for number, text in enumerate(dict.fromkeys(found))}
        at = encoded.indices.to_numpy()
        _, codes = np.unique(codes * len(numbers) + np.array([numbers[t] for t in found])[at], return_inverse=True)
        texts.append(np.array(found, object)[at])
    return codes, texts


def read_layout(metadata: Mapping[str, Any], domains: Sequence[Mapping[str, Any]]) -> TableLayout:
    """The layout in a table's metadata and its ``domainMetadata`` actions."""
    columns = {f["name"]: arrow_type(f["type"]) for f in json.loads(metadata["schemaString"])["fields"]}
    clustering: list[str] = []
    for domain in domains:
        if domain["domain"] == CLUSTERING_DOMAIN and not domain.get("removed"):
            paths = json.loads(domain["configuration"])["clusteringColumns"]
            clustering = [".".join(path) for path in paths]
    return TableLayout(columns, tuple(metadata.get("partitionColumns") or ()), tuple(clustering))

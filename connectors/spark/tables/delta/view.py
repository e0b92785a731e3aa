"""A version of a Delta table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.transaction import DeltaTransaction
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.table_format import View


@dataclass(slots=True, kw_only=True)
class DeltaView(View):
    """``shape`` is the layout, and ``ends`` are all transaction identifiers with their versions."""

    layout: TableLayout
    transaction: DeltaTransaction
    """On this version; spent once there was a commit."""


def read_files(transaction: DeltaTransaction, log: DeltaLog, keys: Mapping[str, pa.DataType], max_keys: int) -> IndexedFiles:
    """All files of the version of a transaction, with an index of these columns."""
    listed = log.listed_files(transaction.version)
    indexed = IndexedFiles(log.files, DeltaFormat(log.table_folder), keys, max_keys)
    indexed.apply(transaction.files() if listed is None else listed, ())
    return indexed

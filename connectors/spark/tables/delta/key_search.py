"""Has Spark find the rows of a table that have given keys, for tables too large for an index in memory.

Spark joins the staged keys with the table's key columns. It leaves out deleted rows, reads only files that can have the keys, and
does so on all executors of a cluster.
"""

from __future__ import annotations

import functools
import operator
import posixpath
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from connect.errors import ConnectError
from connectors.spark.plan.evolution import quote
from connectors.spark.plan.sql import ddl, key_bounds
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import LiveFiles
from connectors.spark.tables.files.partition_values import parse_value
from connectors.spark.tables.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBER = "number"


class KeySearch:
    """Searches the table at ``path``. Used by one thread at a time."""

    def __init__(self, session: SparkSession, path: str, staging: Staging) -> None:
        self._session = session
        self._path = path
        self._staging = staging
        self.last_ms = 0
        """How long the last search took."""

    def find(self, rows: pa.Table, keys: Mapping[str, pa.DataType], version: int, live: LiveFiles) -> Matches:
        """The rows of this version that have the keys of ``rows``, in its live files. Raises ConnectError."""
        if not rows.num_rows or not len(live):
            return Matches.empty()
        for file in live.by_path.values():
            # Spark would read any text, perhaps in another way than the sink.
            for name in keys.keys() & file.values.keys():
                parse_value(file.values[name], keys[name], name)
        started = time.monotonic()
        columns = {f"k{at}": rows[name] for at, name in enumerate(keys)}
        searched = pa.table({_NUMBER: pa.array(np.arange(rows.num_rows)), **columns})
        with self._staging.write(searched) as staged:
            found = self._join(staged.uri, searched, keys, version)
        self.last_ms = int((time.monotonic() - started) * 1000)
        return _to_matches(found, live)

    def _join(self, staged: str, searched: pa.Table, keys: Mapping[str, pa.DataType], version: int) -> pa.Table:
        from pyspark.sql import functions as f

        wanted = self._session.read.schema(ddl({member.name: member.type for member in searched.schema})).parquet(staged)
        table = self._session.read.format("delta").option("versionAsOf", version).load(self._path)
        bounds = key_bounds(searched["k0"])
        if bounds is not None:
            table = table.where(table[quote(next(iter(keys)))].between(f.expr(bounds[0]), f.expr(bounds[1])))
        place = table.metadataColumn("_metadata")
        table = table.select(
            *(table[quote(name)].alias(f"t{at}") for at, name in enumerate(keys)),
            place["file_path"].alias("file"),
            place["row_index"].alias("row"),
        )
        same = [table[f"t{at}"] == wanted[f"k{at}"] for at in range(len(keys))]
        joined = table.join(f.broadcast(wanted), functools.reduce(operator.and_, same))
        return joined.select(_NUMBER, "file", "row").toArrow()


def _to_matches(found: pa.Table, live: LiveFiles) -> Matches:
    if not found.num_rows:
        return Matches.empty()
    numbers = {_normalized(live.location(file)): file.number for file in live.by_path.values()}
    paths = found["file"].combine_chunks().dictionary_encode()
    by_path = np.array([_number_of(uri, numbers) for uri in paths.dictionary.to_pylist()], np.int32)
    return Matches(
        found[_NUMBER].to_numpy().astype(np.int64),
        by_path[paths.indices.to_numpy()],
        found["row"].to_numpy().astype(np.int32),
    )


def _number_of(uri: str, numbers: Mapping[str, int]) -> int:
    number = numbers.get(location_of(uri))
    if number is None:
        raise ConnectError(f"Spark found rows in {uri}, which is not among the table's files")
    return number


def location_of(uri: str) -> str:
    """The path of a file in Arrow's file systems, from its URL-encoded URI in Spark (``_metadata.file_path``)."""
    decoded = unquote(uri)
    if decoded.startswith("file:"):
        return _normalized("/" + decoded.removeprefix("file:").lstrip("/"))
    return _normalized(decoded.split("://", 1)[-1])


def _normalized(path: str) -> str:
    return posixpath.normpath(path)

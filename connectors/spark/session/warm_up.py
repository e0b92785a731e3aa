"""Warms Spark up for merges, whose first run is many times slower than the next ones."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.spark.plan.sql import DELETE_FLAG, merge_statement, table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_VIEW = "sluice_warm_up"


def warm_up_merge(session: SparkSession) -> None:
    """Merges a few rows like an upsert. Needs its own session, and a Spark that shares our file system. Never raises."""
    folder = tempfile.mkdtemp(prefix="sluice-warm-up-")
    target = table_at(str(Path(folder) / "table"))
    try:
        rows = f"SELECT id, cast(id AS string) AS name, id % 2 = 0 AS `{DELETE_FLAG}` FROM range(4)"
        session.sql(f"CREATE TABLE {target} (id BIGINT, name STRING) USING delta")
        session.sql(f"INSERT INTO {target} SELECT id, name FROM ({rows})")
        staged = str(Path(folder) / "staged")
        session.sql(rows).coalesce(1).write.parquet(staged)
        session.read.parquet(staged).createOrReplaceTempView(_VIEW)
        columns = ["id", "name"]
        session.sql(merge_statement(target, _VIEW, ["id"], columns, columns, (), ("0", "3"), deletes=True))
    except Exception as e:
        # A real problem with Spark will occur again in a commit.
        log.debug("MERGE was not warmed up: %s", e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

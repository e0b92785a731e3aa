"""The first MERGE of a JVM takes many times as long as the tenth: classes are loaded, code is generated, planning is cold.

So one is done on a few rows in a temporary folder while the first records are on their way, and the first real one need not
wait for all that. It costs nothing that would not be spent anyway, only earlier.
"""

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


def merge_once(session: SparkSession) -> None:
    """Merges a few rows as an upsert does. Needs a session of its own, and a Spark that shares our file system. Never raises."""
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
        session.sql(merge_statement(target, _VIEW, ["id"], columns, columns, (), ("id", 0, 3), deletes=True))
    except Exception as e:
        # Whatever is wrong with Spark shows again where it matters.
        log.debug("the first merge was not warmed up: %s", e)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

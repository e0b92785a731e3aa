"""Work that loads the classes of a typical commit, for the class archive."""

from __future__ import annotations

import threading
from pathlib import Path

from connectors.spark.session.attach import attach, detach
from connectors.spark.session.jvm import SparkJvm
from connectors.spark.session.warm_up import warm_up_merge


def run_typical_work(jvm: SparkJvm, table: Path) -> None:
    """Creates, appends to, merges into, and reads a Delta table. Raises what Spark raises."""
    failed: list[BaseException] = []

    def work() -> None:
        gateway, session = attach(jvm.port, jvm.token)
        try:
            warm_up_merge(session.newSession())
            name = f"delta.`{table}`"
            properties = "'delta.enableDeletionVectors' = 'true'"
            session.sql(f"CREATE TABLE {name} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({properties})")
            session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
            session.sql(f"DELETE FROM {name} WHERE id = 1")
            session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
            log = gateway.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, str(table))
            transaction = log.startTransaction()
            transaction.metadata().json()
            transaction.protocol().json()
            log.checkpoint()
            session.read.format("delta").load(str(table)).count()
        except BaseException as e:
            failed.append(e)
        finally:
            detach(gateway)

    thread = threading.Thread(target=work, name="spark-training")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]

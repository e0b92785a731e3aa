"""Creates the class archive of Spark's JVM from the classes that typical work loads. ``sluice setup`` runs this module."""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
from pathlib import Path

from connect.errors import ConnectError
from connectors.spark.config import SparkConfig
from connectors.spark.session import class_archive
from connectors.spark.session.attach import attach, detach
from connectors.spark.session.jvm import SparkJvm, class_path
from connectors.spark.session.settings import plan_launch
from connectors.spark.session.warm_up import warm_up_merge

log = logging.getLogger(__name__)

_EXIT_S = 120.0


def create_archive() -> Path | None:
    """Runs Spark once and archives the classes that it loads, unless there is an archive. Takes 40 CPU seconds.

    The archive is optional: returns None when it cannot be created, for example because the directory is read-only. Raises
    ConfigError when there is no Java.
    """
    plan = plan_launch(SparkConfig("local[2]", "", (), ()), optional_jars=False)
    target = class_archive.path_for(Path(plan.java), class_path(plan))
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".train-", dir=target.parent) as work:
            draft = Path(work) / "classes.jsa"
            jvm = SparkJvm(plan, options=(f"-XX:ArchiveClassesAtExit={draft}", *class_archive.QUIET))
            try:
                jvm.create_context()
                _run_typical_work(jvm, Path(work) / "table")
            finally:
                jvm.stop(timeout_s=_EXIT_S)
            if draft.is_file():
                draft.replace(target)
    except (OSError, ConnectError) as e:
        log.warning("Spark starts slower, because its class archive %s cannot be created: %s", target, e)
    return target if target.is_file() else None


def _run_typical_work(jvm: SparkJvm, table: Path) -> None:
    """Creates, appends to, merges into, and reads a Delta table. Raises what Spark raises."""
    failed: list[BaseException] = []

    def work() -> None:
        gateway, session = attach(jvm.port, jvm.token, is_local=True)
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


if __name__ == "__main__":
    sys.exit(0 if create_archive() is not None else 1)

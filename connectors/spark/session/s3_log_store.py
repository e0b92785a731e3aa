"""The log store with which several JVMs can commit to a Delta table on S3: a Java class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors.spark.session.java_classes import install_class

LOG_STORE = "sluice.spark.S3ConditionalLogStore"
_SOURCE = Path(__file__).with_name("S3ConditionalLogStore.java")


def install_log_store(session: Any) -> Path:
    """Makes the class known to the JVM of a session, and to executors, where VACUUM lists files. Raises ConnectError when Spark
    lacks the JARs for S3."""
    remedy = "run 'sluice setup --s3' and restart the worker, or see S3 in docs/spark-engines.md"
    return install_class(session, LOG_STORE, _SOURCE, "S3", remedy)

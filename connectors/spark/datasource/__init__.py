"""Spark's data source ``sluice``: reads any source connector without Kafka.

::

    register(spark)
    changes = spark.readStream.format("sluice").options(**connector).option("table", "public.orders").load()

A child process runs the connector into a spool (``worker.spool``), whose segments the executors read. Spark runs this package
in several processes: see :mod:`connectors.spark.datasource.source`. :class:`SpoolTables` writes a stream of records to the tables
of the Spark sink.
"""

from connectors.spark.datasource.executor_check import check_executors
from connectors.spark.datasource.source import SluiceSource, register
from connectors.spark.datasource.tables import SpoolTables

__all__ = ["SluiceSource", "SpoolTables", "check_executors", "register"]

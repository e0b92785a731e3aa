"""Spark's data source ``sluice``: reads any source connector without Kafka.

::

    register(spark)
    changes = spark.readStream.format("sluice").options(**connector).option("table", "public.orders").load()

A child process runs the connector into a spool (``worker.spool``), whose segments the executors read. Spark runs this package
in several processes: see :mod:`connectors.spark.datasource.source`. :class:`SpoolTables` writes a stream of records to the tables
of the Spark sink.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connectors.spark.datasource.executor_check import check_executors
    from connectors.spark.datasource.source import SluiceSource, register
    from connectors.spark.datasource.tables import SpoolTables

__all__ = ["SluiceSource", "SpoolTables", "check_executors", "register"]

# Imported at their first use: Spark starts several processes for each query, which need only the source.
_MODULES = {"check_executors": "executor_check", "SluiceSource": "source", "register": "source", "SpoolTables": "tables"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

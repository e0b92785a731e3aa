"""Settings for a Spark whose queries are small: each runs once or twice, so generated code never pays.

Spark generates Java for each query and compiles it, in the driver and again in tasks, which is more than half of the CPU time of
tests of tables. Interpreted expressions return the same rows. Tests that start workers with no such settings, those that use
:data:`GENERATED`, and all with ``SLUICE_GENERATED_CODE=1`` show that generated code does, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.postgres_options import dotted

_CODE = "spark.conf.spark.sql.codegen."

GENERATED = {f"{_CODE}wholeStage": "true", f"{_CODE}factoryMode": "FALLBACK"}
"""Spark's defaults, for one session of a Spark that has been started without them."""

INTERPRETED = (
    GENERATED
    if os.environ.get("SLUICE_GENERATED_CODE") == "1"
    else {f"{_CODE}wholeStage": "false", f"{_CODE}factoryMode": "NO_CODEGEN"}
)
"""Properties of a connector."""

CODE_CACHE = {"spark.conf.spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=128m"}
"""One JVM runs hundreds of tests: in the 48 MB that suffice a worker, it would throw compiled code away and compile it again."""


def delta_sink(lake: Path, topics: str, mode: str = "upsert", **options: str) -> dict[str, str]:
    """A sink of Spark into tables in the folder ``lake`` that have the names of the source's tables."""
    return {
        "connector.class": "SparkSink",
        "topics": topics,
        "table.format": "delta",
        "table.location": str(lake),
        "table.name.format": "${table}",
        "write.mode": mode,
        "freshness.ms": "200",
        **dotted(options),
    }

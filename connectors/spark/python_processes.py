"""The interpreter of the Python processes that a Spark session starts."""

from __future__ import annotations

import os
import sys
from typing import Any

from connectors.spark.masters import is_local

_PYTHON = "spark.pyspark.python"


def choose_python(context: Any, *, is_own: bool = False) -> None:
    """Has the Python processes of a Spark context use the interpreter that ``spark.pyspark.python`` names, which Spark itself
    heeds only in spark-submit. Without it and ``PYSPARK_PYTHON``, those of a local Spark use this interpreter, and so do those of
    a Spark that Sluice has started (``is_own``): PySpark's default is the python3 of the PATH."""
    local = is_local(str(context.master))
    if named := context.getConf().get(_PYTHON) or os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = named
    elif local or is_own:
        context.pythonExec = sys.executable
    if local:
        context.environment.setdefault("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))

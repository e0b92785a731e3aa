"""Spark for the connectors of a worker: one JVM per worker and address, a session per use.

A *host* process owns the JVM. The first process of the worker that needs Spark starts the host; the others find it and attach to
the same JVM over py4j. Users of a session call DataFrames and SQL, which also work on Spark Connect, or check for a JVM first.
"""

from connectors.spark.session.jars import JARS_VARIABLE, find_jars
from connectors.spark.session.java import require_java
from connectors.spark.session.leases import Lease, lease, stop
from connectors.spark.session.settings import SESSION_SETTINGS, SETTINGS

__all__ = ["JARS_VARIABLE", "SESSION_SETTINGS", "SETTINGS", "Lease", "find_jars", "lease", "require_java", "stop"]

"""Attaches PySpark in this process to a Spark JVM that another process owns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError
from connectors.spark.errors import APPLICATION_ENDED_ADVICE
from connectors.spark.python_processes import choose_python
from connectors.spark.session.gateway import connect_gateway, disconnect_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def attach(port: int, token: str, *, is_local: bool) -> tuple[Any, SparkSession]:
    """Returns the gateway and a session. Not on the main thread, where PySpark would replace the handler of SIGINT.

    PySpark has one context per process, in class attributes; :func:`detach` clears them. Raises ConnectError when a cluster has
    ended the application; without a cluster, its JVM is ending, and the error is a ConnectionError.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    gateway = connect_gateway(port, token)
    ended = ConnectionError("Spark's JVM is ending") if is_local else ConnectError(APPLICATION_ENDED_ADVICE)
    default: Any = None
    try:
        jvm = gateway.jvm
        found = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if found.isEmpty():
            raise ended
        default = found.get()
        shared = jvm.JavaSparkContext(default.sparkContext())
        context = SparkContext(gateway=gateway, jsc=shared, conf=SparkConf(_jconf=shared.getConf()))
        choose_python(context, is_own=True)
        session = SparkSession(context, default)
    except BaseException as e:
        has_ended = _is_stopped(default)
        detach(gateway)
        if has_ended:
            raise ended from e
        raise
    return gateway, session


def _is_stopped(session: Any) -> bool:
    """Whether the application of Java's session has ended, so that what failed with it has that reason."""
    try:
        return session is not None and bool(session.sparkContext().isStopped())
    except Exception:
        return False


def detach(gateway: Any) -> None:
    """Makes PySpark forget the context, without stopping it: other processes use it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if SparkContext._gateway is gateway:
        server = getattr(context, "_accumulatorServer", None)
        SparkContext._active_spark_context = None
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkSession._instantiatedSession = None
        if server is not None:
            with contextlib.suppress(OSError):
                server.shutdown()
    disconnect_gateway(gateway)

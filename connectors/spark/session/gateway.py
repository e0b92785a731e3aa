"""Connects to a Spark JVM through py4j."""

from __future__ import annotations

import contextlib
import logging
import socket
from typing import Any

# What PySpark imports into the view of its JVM (pyspark.java_gateway.launch_gateway).
_IMPORTS = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)


class _WithoutTokens(logging.Filter):
    """py4j logs each command at DEBUG, also the one that sends its token."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Command to send: A\n")


_WITHOUT_TOKENS = _WithoutTokens()


def connect_gateway(port: int, token: str) -> Any:
    """Returns a gateway to a running JVM, with a connection per thread, like PySpark's own."""
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
    from py4j.java_gateway import java_import

    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_WITHOUT_TOKENS)  # Promise 9: adding it again has no effect.
    if logging.getLogger("py4j").level == logging.NOTSET:
        logging.getLogger("py4j").setLevel(logging.WARNING)  # at INFO, it reports each connection that it closes
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=token, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = None
    for name in _IMPORTS:
        java_import(gateway.jvm, name)
    return gateway


def disconnect_gateway(gateway: Any) -> None:
    """Closes the connections of this process. The JVM and its other clients continue."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    client = gateway._gateway_client
    client.is_connected = False
    server = gateway.__dict__.get("_callback_server")
    # On some connections, Java calls Python (foreachBatch). A thread reads them, with a lock that closing them needs. The client
    # does not know those whose thread is not calling Java.
    for connection in [*client.deque, *(server.connections if server is not None else ())]:
        if connection.socket is not None:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
    client.close()
    if server is not None:
        gateway.shutdown_callback_server()
    # After that: a thread that ends drops its connection without closing it.
    client.finalizer_deque.append(SHUTDOWN_FINALIZER_WORKER)


def close_connection_of_thread(gateway: Any) -> None:
    """Closes the calling thread's connection, which py4j would leave to the garbage collector. For a thread that ends."""
    connection = gateway._gateway_client.get_thread_connection()
    if connection is not None:
        with contextlib.suppress(ValueError):
            gateway._gateway_client.deque.remove(connection)
        connection.close()

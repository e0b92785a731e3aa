"""Connects to a Spark JVM through py4j, and recognizes when it is gone."""

from __future__ import annotations

import logging
import re
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
    client.finalizer_deque.append(SHUTDOWN_FINALIZER_WORKER)
    client.close()


_GONE = re.compile(
    r"An error occurred while calling [^\n]*\Z"  # py4j's text for a call whose connection broke: without an exception of Java
    r"|Target Object ID does not exist for this gateway"  # an object of a JVM that another one has replaced
    r"|Answer from Java side is empty"
    r"|while trying to connect to the Java server"
)


def is_jvm_gone(error: BaseException) -> bool:
    """Whether an exception of py4j says that its JVM has ended, or was replaced by another. Needs no py4j."""
    found: BaseException | None = error
    while found is not None:
        names = {cls.__name__ for cls in type(found).__mro__}
        if "Py4JNetworkError" in names:
            return True
        if "Py4JError" in names and "Py4JJavaError" not in names and _GONE.search(str(found)):
            return True
        found = found.__cause__
    return False

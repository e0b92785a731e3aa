"""Translates exceptions of Spark, Delta, and Iceberg into errors that name the cause, the table, and what to do."""

from __future__ import annotations

import re
import sys
from typing import Any

from connect.errors import ConnectError, RetriableError, causes

# Conflicts with another writer, in Delta's names, and failures that pass by themselves.
_TRANSIENT = (
    "DELTA_CONCURRENT",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "SocketTimeoutException",
    "ConnectException",
    "UNAVAILABLE",
    # The watch over a cluster cancels jobs that have no executor.
    "SPARK_JOB_CANCELLED",
    # Catalogs of Iceberg.
    "ServiceUnavailableException",
    "ServiceFailureException",
    "CommitStateUnknownException",
    "CommitFailedException",
    "LockException",
    "TTransportException",
    # An object store, by S3A, by Arrow, and by obstore.
    "Unable to execute HTTP request",
    "Status Code: 500",
    "Status Code: 503",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error REQUEST_TIMEOUT",
    "AWS Error INTERNAL_FAILURE",
    "error sending request",
    "operation timed out",
)
_PERMISSIONS = "let the worker and Spark write into the table's folder, then restart the task"
_CREDENTIALS = (
    "check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the worker's environment, its role, or "
    "spark.conf.spark.hadoop.fs.s3a.access.key and secret.key) and their permissions on table.location, then restart the task, "
    "or the worker if the credentials have changed: Spark keeps those of its first access"
)
_CATALOG = "check the catalog's credentials and permissions (spark.conf.spark.sql.catalog.<catalog>.*), then restart the task"
_LOCKS = (
    "if the Hive metastore has no locks, set "
    "spark.conf.spark.sql.catalog.<catalog>.hadoop.iceberg.engine.hive.lock-enabled=false (Hive in docs/iceberg.md)"
)
_HIVE = "start the Hive metastore, or correct spark.conf.spark.sql.catalog.<catalog>.uri"
_BUCKET = "create the bucket, or correct table.location"
_S3 = "Spark lacks the JARs or settings of this file system: see S3 in docs/spark-engines.md"
APPLICATION_ENDED = ("SparkContext was shut down", "stopped SparkContext", "No active or default Spark session found")
APPLICATION_ENDED_ADVICE = (
    "the cluster has ended the worker's application: somebody has ended it, or its executors ended too often (their logs say "
    "why). Restart the task then"
)
_DELTA = (
    "Delta's jars are missing: set spark.jars or SLUICE_SPARK_JARS, or start the Spark Connect server with them (Clusters in "
    "docs/spark-engines.md)"
)
_DISK = "free disk space, then restart the task"
_ADVICE = (
    ("OutOfMemoryError", "give Spark more memory with spark.conf.spark.driver.memory, or lower commit.max.records"),
    ("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
     "set spark.conf.spark.databricks.delta.properties.defaults.columnMapping.mode=name before creating the table, or rename it"),
    ("DATA_SOURCE_NOT_FOUND", _DELTA),
    *((sign, APPLICATION_ENDED_ADVICE) for sign in APPLICATION_ENDED),
    ("NotAuthorizedException", _CATALOG),
    ("ForbiddenException", _CATALOG),
    ("another writer has created the table, but does not have it", _LOCKS),
    ("LockException", _LOCKS),
    ("Could not connect to meta store", _HIVE),
    ("NoSuchNamespaceException", "create the namespace, or correct table.catalog and table.name.format"),
    ("Cannot find catalog plugin class", "Iceberg's JAR is missing: run 'sluice setup --iceberg' and restart the worker"),
    ("S3AFileSystem not found", _S3),
    ("No FileSystem for scheme", _S3),
    ("ClassNotFoundException", _DELTA),
    ("Permission denied", _PERMISSIONS),
    ("Operation not permitted", _PERMISSIONS),
    ("Read-only file system", _PERMISSIONS),
    ("NO_SUCH_BUCKET", _BUCKET),
    ("NoSuchBucket", _BUCKET),
    ("UnknownStoreException", _BUCKET),
    ("ACCESS_DENIED", _CREDENTIALS),
    ("INVALID_ACCESS_KEY_ID", _CREDENTIALS),
    ("SIGNATURE_DOES_NOT_MATCH", _CREDENTIALS),
    ("HTTP status 403", _CREDENTIALS),
    ("Status Code: 403", _CREDENTIALS),
    ("NoAuthWithAWSException", _CREDENTIALS),
    ("403 Forbidden", _CREDENTIALS),
    ("Not a directory", "a file is where a folder is needed: move it away, or set another table.location"),
    ("No space left", _DISK),
    ("Disk quota exceeded", _DISK),
    ("ChecksumException", "the file or its checksum (.<name>.crc beside it) is damaged: restore one, or delete the checksum"),
    ("DELTA_CANNOT_MODIFY_APPEND_ONLY", "set delta.appendOnly=false on the table, or write.mode=append"),
    ("DELTA_UNSUPPORTED_FEATURES", "remove the feature (ALTER TABLE ... DROP FEATURE), or write into another table"),
)  # fmt: skip


_GONE = re.compile(
    r"An error occurred while calling [^\n]*\Z"  # py4j's text for a call whose connection broke: without an exception of Java
    r"|Target Object ID does not exist for this gateway"  # an object of a JVM that another one has replaced
)


ON_HOST = re.compile(r"Lost task (?:\S+ in stage \S+ \(TID \d+\) )?\((\S+) executor (\d+)\)")
"""Host and executor of a cluster."""
_MISSING = ("FileNotFoundException", "FILE_NOT_EXIST", "PATH_NOT_FOUND")


def is_jvm_gone(error: BaseException) -> bool:
    """Whether an exception of py4j says that its JVM has ended, or was replaced by another. Needs no py4j."""
    for found in causes(error):
        names = {cls.__name__ for cls in type(found).__mro__}
        # py4j does not wrap the errors of a socket that it opens.
        if "Py4JNetworkError" in names or isinstance(found, ConnectionError):
            return True
        # An error of py4j itself. It says the same of a name that Java lacks and of one that it could not ask for.
        if "Py4JError" in names and "Py4JJavaError" not in names and (_GONE.search(str(found)) or not _answers_java()):
            return True
    return False


def _answers_java() -> bool:
    """Whether the JVM that PySpark uses in this process answers. Blocks as long as it hangs."""
    gateway: Any = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_gateway", None)
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except Exception:
        return False
    return True


def explain(error: BaseException, doing: str) -> ConnectError:
    """The error to raise for an exception of Spark during ``doing``; RetriableError when a retry may help. Raises an error of
    Sluice as it is: ``raise explain(error, ...) from error`` would make it its own cause."""
    if isinstance(error, ConnectError):
        raise error
    if is_jvm_gone(error):
        # A lease of Spark notices it, too: its next session is in a new JVM.
        return RetriableError(f"{doing}: Spark's JVM has ended (its last log messages say why); restarting it")
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    cause = root_cause(str(error)) or type(error).__name__
    advice = _storage_advice(text) or next((what for sign, what in _ADVICE if sign in text), None)
    message = f"{doing}: {cause}" + (f"; {advice}" if advice else "")
    if any(sign in text for sign in _TRANSIENT):
        return RetriableError(message)
    return ConnectError(message)


def _storage_advice(text: str) -> str | None:
    """What to do when an executor of a cluster lacks a file, which the worker may see."""
    found = ON_HOST.search(text)
    if found is None or not any(sign in text for sign in _MISSING):
        return None
    return (
        f"executor {found[2]} on host {found[1]} does not have it: table.location must be reachable under the same name from the "
        "worker and from all executors (Clusters in docs/spark-engines.md)"
    )


def is_damaged_parquet(error: OSError) -> bool:
    """Whether Arrow read a Parquet file whose metadata is damaged, for which it has no class of its own."""
    return "Couldn't deserialize thrift" in str(error)


def is_forbidden(error: BaseException) -> bool:
    """Whether a local file system, or an object store, refuses Arrow to read a file."""
    return isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error)


def root_cause(text: str) -> str:
    """The last ``Caused by`` of a Java trace, else its first meaningful line, without stack frames."""
    causes = re.findall(r"^\s*Caused by: (.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    if causes:
        return _short(causes[-1])
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    return _short((said or lines or [""])[0].removeprefix(": "))


def _short(line: str) -> str:
    line = re.sub(r"^(?:[a-z_][\w$]*\.)+(?=[A-Z])", "", line)
    return line if len(line) <= 500 else line[:497] + "..."


def error_condition(error: BaseException) -> str:
    """Spark's name for the error condition, or an empty string."""
    for name in ("getCondition", "getErrorClass"):
        read = getattr(error, name, None)
        if read is not None:
            return str(read() or "")
    return ""

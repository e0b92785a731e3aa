"""Translates exceptions of Spark, Delta, and Iceberg into errors that name the cause, the table, and what to do."""

from __future__ import annotations

import re
import sys
from typing import Any

from connect.errors import ConnectError, RetriableError, causes
from connectors.spark.masters import is_local

# Conflicts with another writer, in Delta's names, and failures that pass by themselves.
_TRANSIENT_NAMES = (
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
    # The watch over a cluster cancels jobs that have no executor.
    "SPARK_JOB_CANCELLED",
    # Catalogs of Iceberg.
    "ServiceUnavailableException",
    "ServiceFailureException",
    "CommitStateUnknownException",
    "CommitFailedException",
    "LockException",
    "TTransportException",
)
_TRANSIENT_TEXT = re.compile(
    r"^\s*status = StatusCode\.UNAVAILABLE$|\bStatusRuntimeException: UNAVAILABLE\b"  # gRPC, of Spark Connect
    # An object store, by S3A, by Arrow, and by obstore.
    r"|\bSdkClientException: Unable to execute HTTP request: "
    r"|\(Service: [^()\n]*\bStatus Code: (?:500|503)\b"
    r"|\bAWS Error (?:NETWORK_CONNECTION|SLOW_DOWN|REQUEST_TIMEOUT|INTERNAL_FAILURE)\b[^\n]* during \w+ operation\b"
    r"|- HTTP error: (?:error sending request\b|[^\n]*\boperation timed out\b)|^Caused by: operation timed out$",
    re.MULTILINE,
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


def _system_error(text: str) -> re.Pattern[str]:
    """Finds an error of the operating system where Python, Arrow, and Java put it, which is never within a name."""
    return re.compile(rf"(?:\[[Ee]rrno \d+\] |\(|: |^){text}(?!\w)", re.MULTILINE)


_FORBIDDEN = re.compile(
    r"\bAWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|\w+ \(HTTP status 403\))"
    r"[^\n]* during \w+ operation\b"
    r"|\(Service: [^()\n]*\bStatus Code: 403\b"
    r"|\bstatus(?: code:)? 403 Forbidden\b"
)
_ADVICE_BY_TEXT = (
    *((re.compile(re.escape(sign)), APPLICATION_ENDED_ADVICE) for sign in APPLICATION_ENDED),
    (re.compile(r"\bthe catalog reports that another writer has created the table, but does not have it\b"), _LOCKS),
    (re.compile(r"\bCould not connect to meta store using any of the URIs provided\b"), _HIVE),
    (re.compile(r"\bCannot find catalog plugin class for catalog\b"),
     "Iceberg's JAR is missing: run 'sluice setup --iceberg' and restart the worker"),
    (re.compile(r"\bClass org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem not found\b"), _S3),
    (re.compile(r"\bUnsupportedFileSystemException: No FileSystem for scheme\b"), _S3),
    (_system_error("Permission denied"), _PERMISSIONS),
    (_system_error("Operation not permitted"), _PERMISSIONS),
    (_system_error("Read-only file system"), _PERMISSIONS),
    (re.compile(r"\bAWS Error NO_SUCH_BUCKET\b[^\n]* during \w+ operation\b|<Code>NoSuchBucket</Code>"), _BUCKET),
    (_FORBIDDEN, _CREDENTIALS),
    (_system_error("Not a directory"), "a file is where a folder is needed: move it away, or set another table.location"),
    (_system_error("No space left on device"), _DISK),
    (_system_error("Disk quota exceeded"), _DISK),
)  # fmt: skip
"""What to do, by a phrase of a message that is longer than the names and values in it."""
_ADVICE_BY_NAME = (
    ("OutOfMemoryError", "give Spark more memory with spark.conf.spark.driver.memory, or lower commit.max.records"),
    ("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
     "set spark.conf.spark.databricks.delta.properties.defaults.columnMapping.mode=name before creating the table, or rename it"),
    ("DATA_SOURCE_NOT_FOUND", _DELTA),
    ("NotAuthorizedException", _CATALOG),
    ("ForbiddenException", _CATALOG),
    ("LockException", _LOCKS),
    ("NoSuchNamespaceException", "create the namespace, or correct table.catalog and table.name.format"),
    ("ClassNotFoundException", _DELTA),
    ("NoSuchBucket", _BUCKET),
    ("UnknownStoreException", _BUCKET),
    ("NoAuthWithAWSException", _CREDENTIALS),
    ("ChecksumException", "the file or its checksum (.<name>.crc beside it) is damaged: restore one, or delete the checksum"),
    ("DELTA_CANNOT_MODIFY_APPEND_ONLY", "set delta.appendOnly=false on the table, or write.mode=append"),
    ("DELTA_UNSUPPORTED_FEATURES", "remove the feature (ALTER TABLE ... DROP FEATURE), or write into another table"),
)  # fmt: skip
"""What to do, by a part of the name of a class or error condition."""


_GONE = re.compile(
    r"An error occurred while calling [^\n]*\Z"  # py4j's text for a call whose connection broke: without an exception of Java
    r"|Target Object ID does not exist for this gateway"  # an object of a JVM that another one has replaced
)


ON_HOST = re.compile(r"Lost task (?:\S+ in stage \S+ \(TID \d+\) )?\((\S+) executor (\d+)\)")
"""Host and executor of a cluster."""
_MISSING = ("FileNotFoundException", "FILE_NOT_EXIST", "PATH_NOT_FOUND")
_NAMES = re.compile(
    # Where Java, Spark, Spark Connect, and Python begin a message, and not within one, which may quote a value.
    r"^[ \t]*(?:Caused by: |: |\(|.*\(TID \d+\) \([^()\n]*\): |.*\b[Mm]ost recent failure: )?"
    r"((?:(?:[a-z_][\w$]*\.)*[A-Z][\w$]*(?:: |\) |$))*(?:\[[A-Z][A-Z0-9_.]*\])?)",
    re.MULTILINE,
)

_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.){2,}[A-Z]\w*(?:Exception|Error)\b|\[DELTA_[A-Z_.]+\]")
"""The whole name of a Java class, or an error condition of Delta, which nothing else has."""


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
        if _is_local() and any(sign in str(found) for sign in APPLICATION_ENDED):
            return True  # it ends in an orderly way, because of a signal or the end of its host
    return False


def _is_local() -> bool:
    """Whether the Spark that PySpark uses in this process has no cluster, which could have ended the application."""
    context: Any = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    return is_local(str(getattr(context, "master", "")))


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
    names = _names(error, text)
    advice = _storage_advice(names, text) or _advice(names, text)
    message = f"{doing}: {cause}" + (f"; {advice}" if advice else "")
    if any(sign in names for sign in _TRANSIENT_NAMES) or _TRANSIENT_TEXT.search(text):
        return RetriableError(message)
    return ConnectError(message)


def _names(error: BaseException, text: str) -> str:
    """The classes and error conditions of an error and its causes, and nothing of their messages: those may quote the name of a
    table, a path, or a value."""
    classes = [type(found).__name__ for found in causes(error)]
    return "\n".join([*classes, *filter(None, _NAMES.findall(text)), *_QUALIFIED.findall(text)])


def _advice(names: str, text: str) -> str | None:
    said = (what for phrase, what in _ADVICE_BY_TEXT if phrase.search(text))
    named = (what for name, what in _ADVICE_BY_NAME if name in names)
    return next(said, None) or next(named, None)


def _storage_advice(names: str, text: str) -> str | None:
    """What to do when an executor of a cluster lacks a file, which the worker may see."""
    found = ON_HOST.search(text)
    if found is None or not any(sign in names for sign in _MISSING):
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
    return isinstance(error, PermissionError) or _FORBIDDEN.search(str(error)) is not None


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

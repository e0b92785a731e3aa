"""Errors of Spark and Delta."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError, RetriableError
from connectors.spark.errors import explain, is_forbidden, root_cause


def test_errors_of_java_are_reduced_to_their_cause() -> None:
    trace = (
        "An error occurred while calling o1.save.\n: org.a.SparkException: Job aborted\n\tat x\n"
        "Caused by: java.io.IOException: No space left on device\n\tat y"
    )
    assert root_cause(trace) == "IOException: No space left on device"
    error = explain(RuntimeError(trace), "table t at /lake/t")
    assert str(error) == "table t at /lake/t: IOException: No space left on device; free disk space, then restart the task"
    assert not isinstance(error, RetriableError)
    assert isinstance(explain(RuntimeError("x.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files"), "t"), RetriableError)


def test_error_of_sluice_is_raised_as_it_is_and_never_its_own_cause() -> None:
    own = ConnectError("as it is")

    def fail() -> None:
        try:
            raise own
        except ConnectError as e:
            raise explain(e, "t") from e

    with pytest.raises(ConnectError) as raised:
        fail()
    assert raised.value is own
    assert own.__cause__ is None


def test_file_that_an_executor_of_a_cluster_lacks_names_its_host_and_the_shared_location() -> None:
    missing = "java.io.FileNotFoundException: File file:/lake/t/x does not exist"
    trace = (
        "An error occurred while calling o1.collect.\n: org.a.SparkException: Job aborted due to stage failure: Task 0 in stage "
        f"3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 7) ({{where}}): {missing}\n\tat x\n"
        f"Caused by: {missing}"
    )
    message = explain(RuntimeError(trace.format(where="10.1.2.3 executor 0")), "table t").message
    assert message.startswith(f"table t: {missing.removeprefix('java.io.')}; executor 0 on host 10.1.2.3 does not have it")
    assert "table.location must be reachable under the same name from the worker and from all executors" in message
    assert "executor" not in explain(RuntimeError(trace.format(where="here executor driver")), "table t").message
    without_place = RuntimeError(missing)
    without_place.add_note("Lost task (b executor 1)")
    assert "does not exist; executor 1 on host b does not have it" in explain(without_place, "table t").message


_AWS = "When writing key 'x' in bucket 'b': AWS Error {} during PutObject operation: no more"


@pytest.mark.parametrize(
    "text",
    [
        "x.y.SparkException: Job aborted.\nCaused by: java.lang.RuntimeException: java.net.ConnectException: Connection refused",
        "(org.apache.spark.sql.delta.ConcurrentWriteException) [DELTA_CONCURRENT_WRITE] a transaction has written",
        "An error occurred while calling o1.commit.\n: org.apache.iceberg.exceptions.CommitStateUnknownException",
        "MetaException(message:Could not connect to meta store using any of the URIs provided. Most recent failure: "
        "org.apache.thrift.transport.TTransportException: java.net.ConnectException: Connection refused",
        '<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "no"',
        "io.grpc.StatusRuntimeException: UNAVAILABLE: io exception",
        "x.AWSClientIOException: on s3a://b/x: s.exception.SdkClientException: Unable to execute HTTP request: reset",
        "s.S3Exception: Slow down (Service: S3, Status Code: 503, Request ID: 1)",
        _AWS.format("NETWORK_CONNECTION"),
        "Generic S3 error: Error performing PUT http://a/b in 1ms, after 1 retries - HTTP error: error sending request",
        "Generic S3 error: x - HTTP error: request or response body error\n\nCaused by: operation timed out",
        "java.io.IOException: Failed on local exception: java.net.SocketTimeoutException: 60000 millis timeout",
        "HiveException: no table. org.apache.thrift.transport.TTransportException: java.net.SocketTimeoutException",
        "SparkException: Exception thrown in awaitResult: io.delta.exceptions.ConcurrentAppendException: files were added",
        "(org.apache.spark.SparkException) Lost task 0.3 in stage 3.0 (TID 9) (a executor 1): java.net.SocketTimeoutException: x",
        "[STREAM_FAILED] Query a terminated with exception: [DELTA_CONCURRENT_APPEND.ROW_LEVEL_CHANGES] x",
    ],
)
def test_failures_that_pass_by_themselves_are_retried(text: str) -> None:
    assert isinstance(explain(RuntimeError(text), "table t"), RetriableError)


@pytest.mark.parametrize(
    "word",
    ["UNAVAILABLE", "LockException", "DELTA_CONCURRENT", "ConnectException", "SPARK_JOB_CANCELLED", "Status Code: 503",
     "AWS Error SLOW_DOWN", "error sending request", "operation timed out", "Unable to execute HTTP request"],
)  # fmt: skip
@pytest.mark.parametrize(
    "text",
    [
        "[Errno 20] Not a directory: '/lake/{}/_delta_log'",
        '[CAST_INVALID_INPUT] The value \'{}\' of the type "STRING" cannot be cast to "INT"',
        "org.apache.spark.SparkException: [X] table {} is bad\nCaused by: java.io.IOException: at /a/{}: no\n\tat a.{}(B.java)",
    ],
)
def test_names_and_values_in_a_message_make_no_failure_transient(word: str, text: str) -> None:
    error = explain(RuntimeError(text.replace("{}", word)), f"table {word}")
    assert type(error) is ConnectError


@pytest.mark.parametrize(
    "word",
    ["OutOfMemoryError", "LockException", "ACCESS_DENIED", "403 Forbidden", "Permission denied", "No space left",
     "Not a directory", "NO_SUCH_BUCKET", "ChecksumException", "DATA_SOURCE_NOT_FOUND", "ClassNotFoundException",
     "Could not connect to meta store"],
)  # fmt: skip
def test_names_and_values_in_a_message_give_no_advice(word: str) -> None:
    text = f"[CAST_INVALID_INPUT] The value '{word}' of column {word} in /lake/{word}/x cannot be cast"
    assert explain(RuntimeError(text), "table t").message == f"table t: {text}"
    assert not is_forbidden(OSError(f"/lake/{word}/x is damaged"))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("[Errno 13] Permission denied: '/lake/t'", "let the worker and Spark write"),
        (
            "[Errno 13] Failed to open local file '/lake/t'. Detail: [errno 13] Permission denied",
            "let the worker and Spark write",
        ),
        ("java.io.FileNotFoundException: /lake/t/x (Permission denied)", "let the worker and Spark write"),
        (_AWS.format("INVALID_ACCESS_KEY_ID"), "check the credentials"),
        (_AWS.format("UNKNOWN (HTTP status 403)"), "check the credentials"),
        ("- Server returned non-2xx status code: 403 Forbidden: ", "check the credentials"),
        (_AWS.format("NO_SUCH_BUCKET"), "create the bucket"),
        ("java.lang.OutOfMemoryError: Java heap space", "give Spark more memory"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta", "Delta's jars are missing"),
        ("[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] Unsupported", "remove the feature"),
        ("x.LockException: Timed out", "if the Hive metastore has no locks"),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "Spark lacks the JARs"),
        ("java.lang.ClassNotFoundException: io.delta.X", "Delta's jars are missing"),
    ],
)
def test_known_failures_say_what_to_do(text: str, advice: str) -> None:
    assert f"; {advice}" in explain(RuntimeError(text), "table t").message

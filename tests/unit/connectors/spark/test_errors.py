"""Errors of Spark and Delta."""

from __future__ import annotations

from connect.errors import ConnectError, RetriableError
from connectors.spark.errors import explain, root_cause


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
    own = ConnectError("as it is")
    assert explain(own, "t") is own

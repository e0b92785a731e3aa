"""Errors of Spark and Delta."""

from __future__ import annotations

import pytest

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

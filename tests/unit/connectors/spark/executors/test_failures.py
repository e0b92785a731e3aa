"""What a failed job means."""

from __future__ import annotations

import pytest

from connect.errors import RetriableError
from connectors.spark.executors.failures import explain_job_failure

_LOST = (
    "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 3) (10.0.0.5 executor 1): "
)
_PYTHON = 'org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "worker.py", line 1\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_PYTHON + "ModuleNotFoundError: No module named 'connectors.spark'", "lacks the package connectors (a part of sluice"),
        (_PYTHON + "ModuleNotFoundError: No module named 'pyarrow'", "executor 1 on host 10.0.0.5 lacks the package pyarrow: "),
        (
            _PYTHON + "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "executor 1 on host 10.0.0.5 has Python 3.9, and the worker has 3.11",
        ),
        ('java.io.IOException: Cannot run program "/opt/python": error=2', "has no Python at /opt/python: install sluice"),
        (_PYTHON + "ImportError: librdkafka.so.1: cannot open shared object file", "librdkafka.so.1"),
        (_PYTHON + "KeyError: 'a'", "the job: executor 1 on host 10.0.0.5: KeyError: 'a'"),
        (_PYTHON + "ValueError: state 'cancelled'", "ValueError: state 'cancelled'"),
        (_PYTHON + "ValueError: note '[SPARK_JOB_CANCELLED] FetchFailed'", "ValueError: note"),
        (_PYTHON + "ValueError: note 'connect.errors.RetriableError: wait'", "ValueError: note"),
    ],
)
def test_final_failure_names_host_and_remedy(text: str, expected: str) -> None:
    error = explain_job_failure(_LOST + text + "\n\n\tat org.apache.spark.Foo(Foo.scala:1)", "the job")
    assert expected in error.message
    assert not isinstance(error, RetriableError)


def test_host_is_known_from_the_error_of_python_alone() -> None:
    text = _PYTHON + "ModuleNotFoundError: No module named 'orjson'\n(on host node-7 with Python /usr/bin/python3)\n"
    assert "the Python of an executor on host node-7 lacks the package orjson: " in explain_job_failure(text, "the job").message


@pytest.mark.parametrize(
    "text",
    [
        _PYTHON + "connect.errors.RetriableError: reading t-0 from 1 to below 2 on host a: no Kafka broker answers",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "FetchFailed(BlockManagerId(1, a, 7337, None), shuffleId=0)",
        "[SPARK_JOB_CANCELLED] Job 3 cancelled because no executor has come",
    ],
)
def test_lost_executors_and_brokers_are_retried(text: str) -> None:
    assert isinstance(explain_job_failure(_LOST + text, "the job"), RetriableError)

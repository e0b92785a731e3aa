"""Chains of causes end although an error is its own cause, as after ``raise error from error``."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from connect.errors import ConnectError, causes
from connectors.spark.errors import is_jvm_gone
from worker.errors.stages import RecordStage, StageError
from worker.kafka.idempotence import find_client_error


def make_own_cause(error: ConnectError) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        raise error from error
    return caught.value


def test_each_cause_comes_once() -> None:
    first, second = ValueError("a"), ConnectError("b")
    first.__cause__, second.__cause__ = second, first
    assert list(causes(first)) == [first, second]
    own = make_own_cause(ConnectError("c"))
    assert list(causes(own)) == [own]


@pytest.mark.timeout(60)
def test_searches_for_a_cause_end() -> None:
    own = make_own_cause(ConnectError("c"))
    assert own.__cause__ is own
    assert not is_jvm_gone(own)
    assert not StageError(RecordStage.TRANSFORMATION, object(), "record 1", own).skips
    failed = SystemError("a callback failed")
    failed.__cause__ = own
    with pytest.raises(SystemError):
        find_client_error(failed)
    own.__cause__ = KafkaException("found")
    assert find_client_error(failed) == "found"

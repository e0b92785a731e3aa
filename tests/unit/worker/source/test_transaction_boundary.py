"""Where transactions end, and which client settings a task with exactly-once gets."""

from __future__ import annotations

import logging

import pytest

from connect import ConfigError, SourceRecord
from connect.errors import IllegalStateError
from worker.config.client_overrides import with_transactions
from worker.source.transaction_boundary import Boundary, BoundarySettings, RequestedBoundaries, TransactionEnd, parse_boundary


def records(count: int) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"o": i}, "t", None, None, None, None, i) for i in range(count)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, BoundarySettings(Boundary.POLL, 60)),
        ({"transaction.boundary": "Interval"}, BoundarySettings(Boundary.INTERVAL, 60)),
        (
            {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "500"},
            BoundarySettings(Boundary.INTERVAL, 0.5),
        ),
        ({"transaction.boundary": "CONNECTOR"}, BoundarySettings(Boundary.CONNECTOR, 60)),
    ],
)
def test_boundaries_of_a_configuration(config: dict[str, str], expected: BoundarySettings) -> None:
    assert parse_boundary(config, 60) == expected


@pytest.mark.parametrize("config", [{"transaction.boundary": "batch"}, {"transaction.boundary.interval.ms": "soon"}])
def test_a_boundary_that_there_is_not_is_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(config.values()))):
        parse_boundary(config, 60)


def test_a_batch_ends_a_transaction_after_each_record_that_says_so() -> None:
    batch, requested = records(5), RequestedBoundaries()
    requested.commit_transaction(batch[1])
    requested.abort_transaction(batch[2])
    parts = [([r.value for r in part.records], part.end) for part in requested.split(batch)]
    assert parts == [([0, 1], TransactionEnd.COMMIT), ([2], TransactionEnd.ABORT), ([3, 4], TransactionEnd.NONE)]
    # Each counts once.
    assert [(len(part.records), part.end) for part in requested.split(batch)] == [(5, TransactionEnd.NONE)]


def test_a_boundary_may_be_asked_for_ahead_of_the_batch_that_has_the_record() -> None:
    batch, requested = records(2), RequestedBoundaries()
    requested.commit_transaction(batch[1])
    assert [part.end for part in requested.split(records(2))] == [TransactionEnd.NONE]
    assert [part.end for part in requested.split(batch)] == [TransactionEnd.COMMIT]


def test_what_is_asked_for_a_batch_counts_once_and_not_both_ways() -> None:
    requested = RequestedBoundaries()
    requested.abort_transaction()
    assert [requested.take_end_after_batch(), requested.take_end_after_batch()] == [TransactionEnd.ABORT, TransactionEnd.NONE]
    requested.commit_transaction()
    assert requested.take_end_after_batch() is TransactionEnd.COMMIT
    requested.commit_transaction()
    requested.abort_transaction()
    with pytest.raises(IllegalStateError, match="Connector requested both commit and abort of same transaction"):
        requested.take_end_after_batch()


def test_a_transactional_producer_keeps_its_id_and_its_guarantees(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "enable.idempotence": "false",
        "transactional.id": "mine",
        "delivery.timeout.ms": "2147483647",
        "request.timeout.ms": "90000",
    }
    with caplog.at_level(logging.WARNING):
        settings = with_transactions(given, "group-c-0")
    assert settings == {
        "enable.idempotence": "true",
        "transactional.id": "group-c-0",
        "delivery.timeout.ms": "60000",
        "request.timeout.ms": "60000",
    }
    assert [record.getMessage() for record in caplog.records] == [
        f"The value '{value}' for the '{key}' property will be ignored as it cannot be overridden for connectors when "
        f"exactly-once source support is enabled. The value '{used}' will be used instead."
        for key, value, used in (("enable.idempotence", "false", "true"), ("transactional.id", "mine", "group-c-0"))
    ]


def test_deliveries_have_as_long_as_their_transaction() -> None:
    settings = with_transactions({"delivery.timeout.ms": "2147483647", "transaction.timeout.ms": "300000"}, "id")
    assert settings["delivery.timeout.ms"] == "300000"
    assert with_transactions({"delivery.timeout.ms": "5000"}, "id")["delivery.timeout.ms"] == "5000"

"""Where transactions end, and which client settings a task with exactly-once gets."""

from __future__ import annotations

import logging

import pytest

from connect import ConfigError, SourceRecord
from connect.errors import IllegalStateError
from connect.testing import ManualClock
from worker.config.client_overrides import with_transactions
from worker.source.transaction_boundary import (
    BacklogMerging,
    Boundary,
    BoundarySettings,
    RequestedBoundaries,
    TransactionBoundaries,
    TransactionEnd,
    parse_boundary,
)


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
def test_boundaries_are_parsed(config: dict[str, str], expected: BoundarySettings) -> None:
    assert parse_boundary(config, 60) == expected


@pytest.mark.parametrize("config", [{"transaction.boundary": "batch"}, {"transaction.boundary.interval.ms": "soon"}])
def test_an_invalid_boundary_is_rejected(config: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(config.values()))):
        parse_boundary(config, 60)


def test_a_batch_is_split_after_each_record_that_ends_a_transaction() -> None:
    batch, requested = records(5), RequestedBoundaries()
    requested.commit_transaction(batch[1])
    requested.abort_transaction(batch[2])
    parts = [([r.value for r in part.records], part.end) for part in requested.split(batch)]
    assert parts == [([0, 1], TransactionEnd.COMMIT), ([2], TransactionEnd.ABORT), ([3, 4], TransactionEnd.NONE)]
    # Each counts once.
    assert [(len(part.records), part.end) for part in requested.split(batch)] == [(5, TransactionEnd.NONE)]


def test_a_boundary_may_be_requested_before_the_batch_of_its_record() -> None:
    batch, requested = records(2), RequestedBoundaries()
    requested.commit_transaction(batch[1])
    assert [part.end for part in requested.split(records(2))] == [TransactionEnd.NONE]
    assert [part.end for part in requested.split(batch)] == [TransactionEnd.COMMIT]


def test_a_request_for_a_batch_applies_once_and_must_not_contradict_another() -> None:
    requested = RequestedBoundaries()
    requested.abort_transaction()
    assert [requested.take_end_after_batch(), requested.take_end_after_batch()] == [TransactionEnd.ABORT, TransactionEnd.NONE]
    requested.commit_transaction()
    assert requested.take_end_after_batch() is TransactionEnd.COMMIT
    requested.commit_transaction()
    requested.abort_transaction()
    with pytest.raises(IllegalStateError, match="Connector requested both commit and abort of same transaction"):
        requested.take_end_after_batch()


def test_transactions_of_a_backlog_grow_from_one_batch_and_end_with_it() -> None:
    merging = BacklogMerging(ManualClock().monotonic)
    sizes, size = [], 0
    for batch in range(1, 21):
        size += 1
        if not merging.continues_after_batch(has_more=batch < 20):
            sizes.append(size)
            size = 0
    assert sizes == [1, 2, 4, 8, 5]


def test_a_backlog_is_committed_after_a_limited_time() -> None:
    clock = ManualClock()
    merging = BacklogMerging(clock.monotonic)
    for _ in range(7):  # transactions of 1, 2, and 4 batches
        merging.continues_after_batch(has_more=True)
    continues = []
    for _ in range(4):
        continues.append(merging.continues_after_batch(has_more=True))
        clock.advance(0.2)
    assert continues == [True, True, True, False]


def test_only_batches_that_are_there_share_a_transaction() -> None:
    boundaries = TransactionBoundaries(BoundarySettings(Boundary.POLL, 60), 60)
    boundaries.start_interval()
    ends = [boundaries.end_after_batch(is_open=True, has_more=has_more) for has_more in (True, True, False, False)]
    assert ends == [TransactionEnd.COMMIT, TransactionEnd.NONE, TransactionEnd.COMMIT, TransactionEnd.COMMIT]


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


def test_the_delivery_timeout_is_at_most_the_transaction_timeout() -> None:
    settings = with_transactions({"delivery.timeout.ms": "2147483647", "transaction.timeout.ms": "300000"}, "id")
    assert settings["delivery.timeout.ms"] == "300000"
    assert with_transactions({"delivery.timeout.ms": "5000"}, "id")["delivery.timeout.ms"] == "5000"

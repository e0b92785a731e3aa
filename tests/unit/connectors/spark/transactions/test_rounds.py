"""Rounds over tables in memory: what a row of the table of transactions names is a consistent point, whatever happens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from tests.unit.connectors.spark.transactions.fakes import MARKER, Crash, Lake, Source

NAMES = ("a", "b", "c")


def create(tmp_path: Path, partitions: int = 1, **config: str) -> tuple[Lake, Source]:
    lake = Lake(tmp_path, NAMES, partitions, **config)
    return lake, Source(lake, partitions)


def check(lake: Lake, source: Source) -> list[str]:
    """Checks every point; returns their transactions."""
    found = []
    for transaction, rows in lake.points():
        assert rows == source.history[transaction], f"{transaction} of {list(source.history)}"
        found.append(transaction)
    return found


def test_a_round_takes_only_complete_transactions(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    lake.start()
    first = source.commit([("a", 1, True), ("b", 1, True)])
    lake.deliver(lake.ends, 1)
    lake.deliver(TopicPartition("shop.public.a", 0), 1)
    assert lake.tables["a"].versions == []
    source.commit([("a", 1, True), ("b", 2, True)])
    lake.deliver(TopicPartition("shop.public.b", 0), 1)
    assert check(lake, source) == [first]
    assert [lake.group[tp] for tp in (TopicPartition("shop.public.a", 0), TopicPartition("shop.public.b", 0), lake.ends)] == [
        1,
        1,
        1,
    ]
    lake.stop()


def test_records_that_the_worker_decoded_are_held_too(tmp_path: Path) -> None:
    lake, source = create(tmp_path, partitions=2)
    lake.decodes = True
    lake.start()
    source.snapshot("a", 3)
    source.commit([("a", 1, True), ("b", 1, True)])
    last = source.commit([("a", 1, False), ("b", 2, True)])
    lake.deliver_all()
    assert check(lake, source) == [last]
    lake.stop()


def test_snapshots_are_visible_before_the_first_transaction(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    lake.start()
    source.snapshot("a", 1)
    source.snapshot("b", 1)
    lake.deliver(TopicPartition("shop.public.a", 0), 1)
    assert lake.tables["a"].rows.keys() == {1}
    first = source.commit([("a", 2, True)])
    lake.deliver(TopicPartition("shop.public.a", 0), 1)
    lake.deliver(lake.ends, 1)
    assert lake.tables[MARKER].versions == []  # the snapshot of b has not arrived
    lake.deliver(TopicPartition("shop.public.b", 0), 1)
    assert check(lake, source) == [first]
    lake.stop()


def test_a_transaction_larger_than_the_buffer_is_committed_in_parts(tmp_path: Path) -> None:
    lake, source = create(tmp_path, commit_max_records="20")
    lake.start()
    name = source.commit([("a", number, True) for number in range(100)] + [("b", 1, True)])
    tp = TopicPartition("shop.public.a", 0)
    for _ in range(20):
        lake.deliver(tp, 5)
    assert len(lake.tables["a"].rows) > 80
    assert lake.tables[MARKER].versions == []
    assert lake.group.get(tp, 0) == 0
    lake.deliver_all()
    assert check(lake, source) == [name]
    assert lake.group[tp] == 100
    lake.stop()


def test_filtered_events_hold_up_a_round_until_a_later_transaction_or_the_deadline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake, source = create(tmp_path)
    lake.start()
    first = source.commit([("a", 1, True), ("b", 1, True), ("b", 2, True)], filtered=[3])
    lake.deliver_all()
    assert check(lake, source) == []
    second = source.commit([("b", 3, True)])
    lake.deliver_all()
    assert check(lake, source) == [second]
    assert f"Transaction {first} has 2 events of public.b in the source, of which 1 arrived" in caplog.text
    third = source.commit([("c", 1, True), ("c", 2, True)], filtered=[1])
    lake.deliver_all()
    assert check(lake, source) == [second]
    lake.clock.advance(121)
    lake.deliver_all()
    assert check(lake, source) == [second, third]
    lake.stop()


def test_a_record_without_transaction_is_refused(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    lake.start()
    source._event("a", 1, "c", 1, None, "false")
    with pytest.raises(ConnectError, match=r"has no transaction block.* Set provide\.transaction\.metadata=true on the source"):
        lake.deliver(TopicPartition("shop.public.a", 0), 1)
    lake.stop()


def test_a_failed_commit_is_repeated_before_the_row_is_written(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    failures = [RetriableError("the store is unavailable")]

    def fail(name: str) -> None:
        if failures:
            raise failures.pop()

    lake.tables["b"].before = fail
    lake.start()
    name = source.commit([("a", 1, True), ("b", 1, True)])
    for tp in lake.logs:
        lake.deliver(tp, 5)
    assert (len(lake.tables["a"].versions), len(lake.tables["b"].versions)) == (1, 0)
    assert check(lake, source) == []
    lake.clock.advance(6)
    lake.deliver_all()
    assert check(lake, source) == [name]
    lake.stop()


def test_no_point_has_rows_of_the_past_while_records_are_read_again(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    a, b = TopicPartition("shop.public.a", 0), TopicPartition("shop.public.b", 0)
    lake.start()
    source.commit([(name, 1, True) for name in NAMES])
    for _ in range(2):
        source.commit([("a", 1, True)])
    lake.deliver_all()
    lake.move_back([a], 2)
    lake.start()
    assert lake.position == {**dict.fromkeys(lake.logs, 1), lake.ends: 3}
    last = source.commit([("b", 1, True)])
    lake.deliver(a, 1)
    lake.deliver(b, 1)
    lake.deliver(lake.ends, 1)
    assert last not in check(lake, source)
    lake.deliver(a, 1)
    assert check(lake, source)[-1] == last
    lake.stop()


def test_transactions_without_positions_that_are_read_again_end_no_round(tmp_path: Path) -> None:
    lake, _ = create(tmp_path)
    source = Source(lake, 1, has_positions=False)
    a = TopicPartition("shop.public.a", 0)
    lake.start()
    for name in ("a", "b", "a"):
        last = source.commit([(name, 1, True)])
    lake.deliver_all()
    lake.move_back([a, lake.ends], 3)
    lake.start()
    lake.deliver(a, 2)
    lake.deliver(lake.ends, 1)
    lake.deliver(lake.ends, 1)
    assert check(lake, source) == [last]
    lake.clock.advance(200)
    lake.deliver_all()
    assert check(lake, source) == [last, last]
    lake.stop()


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    lake, source = create(tmp_path)
    lake.start()
    source.commit([("a", 1, True), ("b", 1, True)])
    lake.deliver_all()
    lake.stop()
    lake.tables["a"].versions.clear()
    rows = lake.tables[MARKER].rows
    read = lake._read_rounds
    lake._read_rounds = lambda: type(read())({1: 1}, rows[1]["lsn"], ("shop.public.a",))  # type: ignore[method-assign]
    with pytest.raises(ConnectError, match=r"table shop\.public\.a does not exist, but _sluice_transactions"):
        lake.start()
    lake.stop()


def test_expired_rows_are_deleted(tmp_path: Path) -> None:
    lake, source = create(tmp_path, transaction_retention_ms="10000")
    lake.start()
    for _ in range(5):
        source.commit([("a", 1, True)])
        lake.deliver_all()
        lake.clock.advance(4)
    assert list(lake.tables[MARKER].rows) == [3, 4, 5]
    lake.stop()


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.lists(
                st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.sampled_from([True, True, True, False])),
                min_size=1,
                max_size=6,
            ),
        ),
        st.tuples(st.just("deliver"), st.tuples(st.integers(0, 6), st.integers(1, 5))),
        st.tuples(st.just("crash"), st.tuples(st.sampled_from([*NAMES, MARKER]), st.booleans())),
        st.tuples(st.just("repeat"), st.integers(1, 8)),
        st.tuples(st.just("compact"), st.sampled_from(NAMES)),
        st.tuples(st.just("move"), st.tuples(st.sets(st.integers(0, 6), min_size=1), st.integers(1, 8))),
    ),
    min_size=5,
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, partitions=st.integers(1, 2), max_records=st.sampled_from(["8", "1000"]), has_positions=st.booleans())
def test_points_equal_the_source_after_any_history(
    steps: list[Any], partitions: int, max_records: str, has_positions: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, _ = create(Path(folder), partitions, commit_max_records=max_records)
        source = Source(lake, partitions, has_positions=has_positions)
        source.snapshot("a", 1)
        lake.start()
        last = ""
        try:
            for step, value in steps:
                if step == "commit":
                    last = source.commit(value)
                elif step == "deliver":
                    tps = list(lake.logs)
                    _survive(lake, lambda: lake.deliver(tps[value[0] % len(tps)], value[1]))  # noqa: B023
                elif step == "crash":
                    _arm(lake, *value)
                elif step == "repeat":
                    if has_positions:  # otherwise, a new task cannot know that it has the transactions
                        source.repeat(value)
                elif step == "move":
                    lake.move_back([tp for number, tp in enumerate(lake.logs) if number in value[0]], value[1])
                    lake.start()
                else:
                    lake.tables[value].compact()
                check(lake, source)
            for table in lake.tables.values():
                table.before = table.after = lambda name: None
            lake.deliver_all()
            lake.clock.advance(200)
            lake.deliver_all()
            lake.clock.advance(200)
            lake.deliver_all()
            found = check(lake, source)
            if last:
                assert found[-1] == last
                assert lake.points()[-1][1] == source.history[last]
        finally:
            lake.stop()


def _arm(lake: Lake, name: str, is_before: bool) -> None:
    """The process crashes at the table's next commit."""

    def crash(_: str) -> None:
        table.before = table.after = lambda name: None
        raise Crash

    table = lake.tables[name]
    if is_before:
        table.before = crash
    else:
        table.after = crash


def _survive(lake: Lake, action: Any) -> None:
    try:
        action()
    except Crash:
        lake.stop()
        lake.start()

"""Functions and generators as sink connectors."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from connect import (
    ConfigError,
    ConnectError,
    RetriableError,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SinkTaskContext,
    Struct,
    TopicPartition,
    sink_connector,
)
from connect.functions.sink import FunctionSink
from connect.plugins import Kind, Plugins
from connect.testing import SinkHarness, check_sink_connector, run_sink

HERE = "tests.unit.connect.functions.test_sink"
FIRST = TopicPartition("t", 0)
Batches = Generator[None, list[SinkRecord], None]


@dataclass(frozen=True)
class Target:
    path: Annotated[str, "The file that gets the lines."]


@sink_connector(config=Target, most_tasks=1)
def lines(config: Target) -> Batches:
    """Appends each value to a file."""
    with Path(config.path).open("a") as file:
        while True:
            records = yield
            file.writelines(f"{record.value}\n" for record in records)
            file.flush()


@sink_connector(config=Target)
def append(records: list[SinkRecord], config: Target) -> None:
    with Path(config.path).open("a") as file:
        file.writelines(f"{record.value}\n" for record in records)


def harness(connector: type[FunctionSink], **config: str) -> SinkHarness:
    return SinkHarness(connector.tasks(), config)


def text_records(count: int) -> list[SinkRecord]:
    return [SinkRecord("t", i % 2, None, None, Schema.STRING, f"v{i}", i // 2) for i in range(count)]


@pytest.mark.parametrize("connector", [lines, append])
def test_decorated_function_is_a_sink_connector(connector: type[FunctionSink], tmp_path: Path) -> None:
    check_sink_connector(connector, {"path": str(tmp_path / "out")}, text_records(10))
    assert Plugins.discover().resolve(Kind.CONNECTOR, f"{HERE}:{connector.__name__}").type == "sink"


@pytest.mark.parametrize("connector", [lines, append])
def test_batch_is_delivered_and_committed(connector: type[FunctionSink], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_sink(connector, {"path": str(out)}, text_records(4)) == {FIRST: 2, TopicPartition("t", 1): 2}
    assert out.read_text() == "v0\nv1\nv2\nv3\n"


def test_number_of_tasks_is_limited_by_most_tasks(tmp_path: Path) -> None:
    for connector, expected in ((lines, 1), (append, 3)):
        made = connector()
        made.start({"path": "x"})
        assert len(made.task_configs(3)) == expected


def test_function_of_values_gets_dicts_for_structs() -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).build()
    got: list[Any] = []

    @sink_connector
    def collect(values: list[Any], context: SinkTaskContext) -> None:
        got.extend(values)
        got.append(sorted(context.assignment()))

    run_sink(collect, {}, [Struct(row, [1]), None], schema=row)
    assert got == [{"id": 1}, None, [TopicPartition("test", 0)]]


def test_empty_put_does_not_call_the_function() -> None:
    @sink_connector
    def collect(values: list[Any]) -> None:
        raise AssertionError("called")

    with harness(collect) as sink:
        sink.put([])


def test_generator_is_set_up_before_records_and_closed_at_the_end() -> None:
    events: list[Any] = []

    @sink_connector
    def collect() -> Batches:
        events.append("set up")
        try:
            while True:
                events.append([record.value for record in (yield)])
        finally:
            events.append("torn down")

    with harness(collect) as sink:
        assert events == ["set up"]
        sink.put_values("t", [1, 2])
        sink.commit()
        sink.commit()  # nothing came in between: nothing to deliver
    assert events == ["set up", [1, 2], [], "torn down"]


class Buffering:
    """A sink that holds its records back until it is asked for them, and fails as told."""

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.fail_at: Any = None
        holding = self

        @sink_connector
        def hold() -> Batches:
            held: list[Any] = []
            while True:
                records = yield
                held += [record.value for record in records]
                if holding.fail_at in held or (holding.fail_at == "flush" and not records):
                    holding.fail_at = None
                    raise RetriableError("the store is away")
                if not records:
                    holding.stored += held
                    held = []

        self.connector = hold


def test_records_buffered_by_a_failed_generator_are_consumed_again() -> None:
    holding = Buffering()
    holding.fail_at = 3
    with harness(holding.connector) as sink:
        sink.put_values("t", [1])
        sink.commit()
        sink.put_values("t", [2])
        with pytest.raises(RetriableError, match="the store is away"):
            sink.put_values("t", [3])
        assert sink.context.requested_offsets == {FIRST: 1}
        # Before it is read again, no more is committed than was delivered (promise 2).
        assert sink.task.pre_commit({FIRST: 2}) == {FIRST: 1}
        sink.put([SinkRecord("t", 0, None, None, None, value, value - 1) for value in (2, 3)])
        assert sink.commit() == {FIRST: 3}
    assert holding.stored == [1, 2, 3]


def test_first_failed_batch_is_retried_without_consuming_it_again() -> None:
    holding = Buffering()
    holding.fail_at = 1
    with harness(holding.connector) as sink:
        with pytest.raises(RetriableError):
            sink.put_values("t", [1])
        assert sink.context.requested_offsets == {}
        sink.put_values("t", [1])
        sink.commit()
    assert holding.stored == [1]


def test_failed_flush_commits_nothing() -> None:
    holding = Buffering()
    with harness(holding.connector) as sink:
        sink.put_values("t", [1])
        holding.fail_at = "flush"
        with pytest.raises(RetriableError):
            sink.commit()
        sink.put([SinkRecord("t", 0, None, None, None, 1, 0)])  # the worker goes back to the last commit
        assert sink.commit() == {FIRST: 1}
    assert holding.stored == [1]


def test_revoked_partitions_do_not_block_commits() -> None:
    holding = Buffering()
    with harness(holding.connector) as sink:
        sink.put_values("t", [1])
        sink.task.close_partitions([FIRST], lost=True)
        holding.fail_at = 2
        with pytest.raises(RetriableError):
            sink.put_values("u", [2])
        assert sink.context.requested_offsets == {}


def test_retriable_error_stays_retriable_and_other_errors_name_function_and_line() -> None:
    @sink_connector
    def fail(values: list[Any]) -> None:
        if values == [1]:
            raise RetriableError("later")
        raise KeyError("x")

    with harness(fail) as sink:
        with pytest.raises(RetriableError, match=r"later \(in function .*fail, .*test_sink.py, line \d+\)"):
            sink.put_values("t", [1])
        with pytest.raises(ConnectError, match=r"KeyError: 'x' \(in function .*fail, .*test_sink.py, line \d+\)"):
            sink.put_values("t", [2])


def test_result_other_than_none_is_rejected() -> None:
    @sink_connector
    def counting(values: list[Any]) -> int:
        return len(values)

    @sink_connector
    def yielding() -> Generator[Any, Any, None]:
        while True:
            yield 5

    with harness(counting) as sink, pytest.raises(ConnectError, match="returned a value of type int, expected None"):
        sink.put_values("t", [1])
    with pytest.raises(ConnectError, match="yielded a value of type int, expected None"):
        harness(yielding).start()


def test_generator_that_ends_is_rejected() -> None:
    @sink_connector
    def once() -> Batches:
        yield

    @sink_connector
    def never(context: SinkTaskContext) -> Batches:
        if not context.configs():
            return
        yield

    with harness(once) as sink, pytest.raises(ConnectError, match="has ended; the generator of a sink must take batches"):
        sink.put_values("t", [1])
    with pytest.raises(ConnectError, match="ended before it took a batch"):
        harness(never).start()


def test_failing_setup_or_cleanup_is_reported() -> None:
    @sink_connector(config=Target)
    def opening(config: Target) -> Batches:
        Path(config.path).read_text()
        yield

    @sink_connector
    def closing() -> Batches:
        try:
            while True:
                yield
        finally:
            raise OSError("cannot let go")

    with pytest.raises(ConnectError, match="FileNotFoundError"):
        harness(opening, path="/nowhere/at/all").start()
    sink = harness(closing).start()
    with pytest.raises(ConnectError, match="cannot let go"):
        sink.stop()


def test_only_functions_can_be_decorated() -> None:
    with pytest.raises(ConfigError, match="expected a function"):
        sink_connector(print)


def test_invalid_sink_function_is_rejected_by_the_decorator() -> None:
    async def asynchronous(records: Any) -> None: ...

    def without(config: Any) -> None: ...

    def both(records: Any, values: Any) -> None: ...

    def asking(records: Any, settings: Any) -> None: ...

    def generator(records: Any) -> Any:
        yield

    for function, expected in (
        (asynchronous, "is async"),
        (without, "takes config; a sink function takes either records or values"),
        (both, "takes records, values; a sink function takes either records or values"),
        (asking, "has the parameter settings; a sink function may take records, values, config, context"),
        (
            generator,
            "has the parameter records; a sink function may take config, context (a generator gets its records from yield)",
        ),
    ):
        with pytest.raises(ConfigError) as caught:
            sink_connector(function)
        assert expected in caught.value.message

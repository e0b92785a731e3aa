"""Generator functions as source connectors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from functools import partial
from typing import Annotated, Any

import pytest

from connect import (
    ConfigDef,
    ConfigError,
    ConfigType,
    ConnectError,
    ExactlyOnceSupport,
    Importance,
    RetriableError,
    Schema,
    SchemaBuilder,
    SourceFunctionContext,
    SourceRecord,
    source_connector,
)
from connect.config.validators import at_least
from connect.errors import BadRequestError
from connect.functions.source import PARTITIONS, FunctionSource
from connect.plugins import Kind, Plugins
from connect.testing import MemoryOffsets, SourceHarness, check_source_connector, run_source
from tests.support.waiting import WAIT_S

HERE = "tests.unit.connect.functions.test_source"


@dataclass(frozen=True)
class Counting:
    topic: Annotated[str, "Where the numbers go."]
    first: Annotated[int, "The number to begin with.", at_least(0)] = 0
    pause_s: Annotated[float, "Seconds between two batches.", Importance.LOW] = 0.0

    def __post_init__(self) -> None:
        if self.first == 13:
            raise ConfigError("first is 13, which is bad luck", key="first")


@source_connector(config=Counting, version="1.5", exactly_once=True)
def counter(config: Counting, context: SourceFunctionContext) -> Iterator[Any]:
    """Counts."""
    number = context.offset.get("next", config.first)
    while True:
        yield [context.record(n, {"next": n + 1}) for n in range(number, number + 10)]
        number += 10
        yield context.wait(config.pause_s)


CONFIG = {"topic": "numbers"}


def values(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


def task(connector: type[FunctionSource], **config: str) -> SourceHarness:
    return SourceHarness(connector.tasks(), {**CONFIG, **config})


def test_decorated_function_is_a_source_connector() -> None:
    check_source_connector(counter, CONFIG, records=25)
    found = Plugins.discover().resolve(Kind.CONNECTOR, f"{HERE}:counter")
    assert found.type == "source"
    assert (counter.__name__, counter.__doc__, counter.version) == ("counter", "Counts.", "1.5")
    assert counter().exactly_once_support({}) is ExactlyOnceSupport.SUPPORTED


def test_records_have_topic_partition_offset_and_schema() -> None:
    record = run_source(counter, {"topic": "numbers", "first": "5"}, records=1)[0]
    assert (record.topic, record.value, record.value_schema) == ("numbers", 5, Schema.INT64)
    assert (record.source_partition, record.source_offset) == ({"source": "main"}, {"next": 6})


def test_restart_continues_after_the_last_record() -> None:
    offsets = MemoryOffsets()
    assert values(run_source(counter, CONFIG, records=13, offsets=offsets)) == list(range(13))
    assert values(run_source(counter, CONFIG, records=3, offsets=offsets)) == [13, 14, 15]


def test_waits_take_no_time_in_tests() -> None:
    assert len(run_source(counter, {**CONFIG, "pause.s": "3600"}, records=100)) == 100


def test_dataclass_defines_the_keys() -> None:
    keys = counter().config_def().keys
    assert [(key.name, key.type, key.required, key.importance) for key in keys.values()] == [
        ("topic", ConfigType.STRING, True, Importance.HIGH),
        ("first", ConfigType.LONG, False, Importance.MEDIUM),
        ("pause.s", ConfigType.DOUBLE, False, Importance.LOW),
    ]
    assert keys["first"].doc == "The number to begin with."
    errors = {value.name: value.errors for value in counter().validate({"first": "-1", "pause.s": "x"})}
    assert errors["topic"] == ['Missing required configuration "topic" which has no default value.']
    assert errors["first"] == ["Invalid value -1 for configuration first: Value must be at least 0"]
    assert errors["pause.s"] == ["Invalid value x for configuration pause.s: Not a number of type DOUBLE"]


def test_validation_reports_errors_of_the_dataclass() -> None:
    errors = {value.name: value.errors for value in counter().validate({**CONFIG, "first": "13"})}
    assert errors == {"topic": [], "first": ["first is 13, which is bad luck"], "pause.s": []}
    with pytest.raises(ConfigError, match="bad luck"):
        counter().start({**CONFIG, "first": "13"})


def test_function_with_config_def_gets_a_dict() -> None:
    table = ConfigDef().define("topic", ConfigType.STRING, doc="Where.").define("x.y", ConfigType.INT, 4, doc="A number.")

    @source_connector(config=table)
    def read(config: dict[str, Any], context: SourceFunctionContext) -> Iterator[Any]:
        yield context.record(config)

    assert values(run_source(read, CONFIG, records=1)) == [{"topic": "numbers", "x.y": 4}]


def test_record_needs_a_topic_without_configuration() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield context.record("a", topic="t")
        yield context.record("b")

    with task(read) as harness:
        assert [record.topic for record in harness.poll()] == ["t"]
        with pytest.raises(ConfigError, match=r"context.record\(\) needs a topic: the configuration has no key topic"):
            harness.poll()


def test_record_has_all_given_parts() -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).field("name", Schema.OPTIONAL_STRING).build()

    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield context.record(
            {"id": 1}, {"o": 1}, key="k", topic="t", schema=row, timestamp=5, headers=[("h", 1), ("n", None)], partition=2
        )
        yield [context.record(value, topic="t") for value in ("s", True, 1.5, b"b", None, {"a": 1}, [1])]
        yield context.record({"id": "x"}, topic="t", schema=row)

    with task(read) as harness:
        record = harness.poll()[0]
        assert (record.key_schema, record.key, record.value_schema, record.timestamp) == (Schema.STRING, "k", row, 5)
        assert record.value.as_dict() == {"id": 1, "name": None}
        assert [tuple(header) for header in record.headers or ()] == [("h", Schema.INT64, 1), ("n", None, None)]
        assert record.partition == 2
        schemas = [record.value_schema for record in harness.poll()]
        assert schemas == [Schema.STRING, Schema.BOOLEAN, Schema.FLOAT64, Schema.BYTES, None, None, None]
        with pytest.raises(ConnectError, match='field: "id"'):
            harness.poll()


def test_generator_without_records_and_finished_generator_return_nothing() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield None
        yield []
        yield context.record("only", topic="t")

    clock: list[float] = []
    with SourceHarness(read.tasks(lambda: 0.0, clock.append), {}) as harness:
        assert [values(harness.poll()) for _ in range(5)] == [[], [], ["only"], [], []]
    assert clock == [1.0, 1.0]  # idle for good: it waits, a second at a time


def test_partitions_are_distributed_and_polled_in_turn() -> None:
    @source_connector(config=Counting, partitions=lambda config: [{"file": name} for name in "abc"])
    def read(config: Counting, context: SourceFunctionContext) -> Iterator[Any]:
        for number in range(context.offset.get("next", 0), 2):
            yield context.record(f"{context.partition['file']}{number}", {"next": number + 1})

    connector = read()
    connector.start(CONFIG)
    assert [one[PARTITIONS] for one in connector.task_configs(2)] == ['[{"file": "a"}, {"file": "c"}]', '[{"file": "b"}]']
    assert len(connector.task_configs(9)) == 3
    offsets = MemoryOffsets()
    assert values(run_source(read, CONFIG, records=4, offsets=offsets)) == ["a0", "b0", "c0", "a1"]
    assert values(run_source(read, CONFIG, records=2, offsets=offsets)) == ["b1", "c1"]
    with task(read, **{PARTITIONS: '[{"file": "b"}]'}) as harness:
        assert values(harness.poll_records(2)) == ["b0", "b1"]
    assert connector.alter_offsets(CONFIG, {(("file", "a"),): {"next": 1}, (("file", "gone"),): None})
    with pytest.raises(BadRequestError, match=r"\{'file': 'x'\} is not a source partition of .*read, which has"):
        connector.alter_offsets(CONFIG, {(("file", "x"),): {"next": 1}})


def test_waiting_partition_does_not_block_the_others() -> None:
    @source_connector(partitions=[{"p": "slow"}, {"p": "quick"}])
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        for number in range(3):
            yield context.record(f"{context.partition['p']}{number}", topic="t")
            yield context.wait(60 if context.partition["p"] == "slow" else 0)

    waits: list[float] = []
    with SourceHarness(read.tasks(lambda: 100.0, waits.append), {}) as harness:
        assert values(harness.poll_records(4)) == ["slow0", "quick0", "quick1", "quick2"]
        assert [harness.poll() for _ in range(3)] == [[], [], []]  # the quick one pauses for no time, then ends
    assert waits == [1.0, 1.0]


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([{"a": [1]}], "is not a source partition, expected a flat dict of plain values"),
        (["a"], "'a' is not a source partition"),
        ([{"a": 1}, {"a": 1}], "the source partition {'a': 1} is listed twice"),
        (lambda config: 1 / 0, "ZeroDivisionError: division by zero (in function"),
        (lambda config: sys.exit("no places"), "SystemExit: no places (in function"),
        (partial(int, "x"), "TypeError"),
    ],
)
def test_invalid_partitions_are_rejected(partitions: Any, expected: str) -> None:
    @source_connector(partitions=partitions)
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield None

    with pytest.raises(ConnectError) as caught:
        read().task_configs(1)
    assert expected in caught.value.message


def test_context_has_the_committed_offset() -> None:
    seen: list[dict[str, Any]] = []

    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        try:
            for number in range(3):
                yield context.record(number, {"next": number + 1}, topic="t")
                seen.append(context.committed)
        finally:
            seen.append(context.committed)

    with task(read) as harness:
        harness.poll()
        harness.poll()
        harness.commit()
        harness.poll()
        harness.commit()
    assert seen == [{}, {"next": 2}, {"next": 3}]


def test_stop_ends_a_wait_and_close_runs_finally_blocks() -> None:
    events: list[str] = []
    waits = threading.Event()

    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        try:
            while True:
                waits.set()
                yield context.wait(3600)
        finally:
            events.append(f"closed, stopping: {context.stopping}")

    harness = task(read).start()
    poll = threading.Thread(target=lambda: [harness.poll() for _ in range(2)])
    poll.start()
    assert waits.wait(WAIT_S)  # else the stop may come first, and the function is never called
    harness.task.stop()
    poll.join(WAIT_S)
    assert not poll.is_alive()
    harness.task.close()
    harness.task.close()
    assert events == ["closed, stopping: True"]


def test_function_is_called_again_after_a_retriable_error() -> None:
    failures = [RetriableError("the server is away"), None]

    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        for number in range(context.offset.get("next", 0), 4):
            if number == 2 and (failure := failures.pop(0)) is not None:
                raise failure
            yield context.record(number, {"next": number + 1}, topic="t")

    with task(read) as harness:
        harness.poll()
        harness.poll()
        with pytest.raises(RetriableError, match=r"the server is away \(in function .*read, .*test_source.py, line \d+\)"):
            harness.task.poll()
        assert values(harness.poll_records(2)) == [2, 3]


def test_other_errors_name_function_and_line() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield context.offset["missing"]

    with task(read) as harness, pytest.raises(ConnectError) as caught:
        harness.poll()
    assert caught.value.message.startswith(f"KeyError: 'missing' (in function {HERE}:test_other_errors")
    assert f"{__file__}, line " in caught.value.message


def test_error_while_closing_is_reported() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        try:
            yield None
        finally:
            raise OSError("cannot let go")

    harness = task(read).start()
    harness.poll()
    with pytest.raises(ConnectError, match="cannot let go"):
        harness.stop()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("text", "yielded a value of type str, expected a record"),
        ([{"a": 1}], "yielded a value of type dict, expected a record"),
        (5, "yielded a value of type int"),
    ],
)
def test_value_that_is_not_a_record_is_rejected(given: Any, expected: str) -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield given

    with task(read) as harness, pytest.raises(ConnectError) as caught:
        harness.poll()
    assert expected in caught.value.message


def test_wait_that_is_not_yielded_is_rejected() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        context.wait(5)
        yield None

    with task(read) as harness, pytest.raises(ConnectError, match=r"without yielding the result: yield context.wait"):
        harness.poll()


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_invalid_wait_is_rejected(seconds: float) -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        yield context.wait(seconds)

    with task(read) as harness, pytest.raises(ConnectError, match="expected seconds, 0 or more"):
        harness.poll()


def test_each_record_has_its_own_copy_of_the_offset() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        position = {"next": 0}
        records = []
        for number in range(3):
            position["next"] = number + 1
            records.append(context.record(number, position, topic="t"))
        yield records

    with task(read) as harness:
        assert [record.source_offset for record in harness.poll()] == [{"next": 1}, {"next": 2}, {"next": 3}]


def test_offset_must_be_a_dict() -> None:
    @source_connector
    def read(context: SourceFunctionContext) -> Iterator[Any]:
        no_dict: Any = 5
        yield context.record("a", no_dict, topic="t")

    with task(read) as harness, pytest.raises(ConnectError, match="5 is not a source offset, expected a flat dict"):
        harness.poll()


def test_invalid_source_function_is_rejected_by_the_decorator() -> None:
    async def asynchronous(context: Any) -> Any:
        yield 1

    def plain(context: Any) -> Any:
        return []

    def asking(config: Any, offsets: Any) -> Any:
        yield 1

    for function, expected in (
        (asynchronous, "is async; expected a plain generator function"),
        (plain, "is not a generator"),
        (asking, "has the parameter offsets; a source function may take config and context"),
    ):
        with pytest.raises(ConfigError) as caught:
            source_connector(function)
        assert expected in caught.value.message
    with pytest.raises(ConfigError, match="expected a dataclass or a ConfigDef"):
        source_connector(config=dict)(counter.function)


def test_only_functions_can_be_decorated() -> None:
    with pytest.raises(ConfigError, match="expected a generator function"):
        source_connector(partial(counter.function, context=None))


def test_unreadable_type_hint_is_rejected() -> None:
    odd = make_dataclass("Odd", [("when", "NoSuchType", 1)])
    with pytest.raises(ConfigError, match="the type hints of class Odd cannot be read: name 'NoSuchType' is not defined"):
        source_connector(config=odd)(counter.function)


def test_unsupported_field_type_is_rejected() -> None:
    @dataclass
    class Odd:
        when: complex = 1j

    with pytest.raises(ConfigError, match=r"class Odd: when has type complex, which a setting cannot have; expected str, int"):

        @source_connector(config=Odd)
        def read(config: Odd) -> Iterator[Any]:
            yield None

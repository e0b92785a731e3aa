"""Plain functions in a worker: a generator as a source, functions as transformations, a function as a sink."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from connect import RetriableError, SinkRecord, SourceFunctionContext, sink_connector, source_connector
from tests.integration.worker.conftest import StartWorker
from tests.support.waiting import WAIT_S, eventually
from worker.model import State

Name = Callable[[str], str]
HERE = "tests.integration.worker.test_functions"
LAST = 300

began: list[str] = []
delivered: list[Any] = []
committed: list[dict[str, Any]] = []
closed: list[str] = []
failures = [RetriableError("the store is away")]


@dataclass(frozen=True)
class Counting:
    topic: Annotated[str, "Where the numbers go."]
    partitions: Annotated[int, "How many places there are to count in."] = 1


@source_connector(config=Counting, partitions=lambda config: [{"place": f"p{i}"} for i in range(config.partitions)])
def count(config: Counting, context: SourceFunctionContext) -> Iterator[Any]:
    began.append(context.partition["place"])
    try:
        number = context.offset.get("next", 0)
        while number < LAST:
            yield [context.record(f"{context.partition['place']}-{n}", {"next": n + 1}) for n in range(number, number + 50)]
            number += 50
        while True:
            yield context.wait(3600)
    finally:
        committed.append(context.committed)
        closed.append("source")


@sink_connector
def collect() -> Generator[None, list[SinkRecord], None]:
    held: list[Any] = []
    try:
        while True:
            records = yield
            if records and failures:
                raise failures.pop()
            held += [record.value for record in records]
            if not records:
                delivered.extend(held)
                held = []
    finally:
        closed.append("sink")


def marked(values: list[Any], mark: str) -> list[Any]:
    return [f"{value}{mark}" for value in values]


def is_even(value: str) -> bool:
    return int(value.rpartition("-")[2]) % 2 == 0


def fragile(value: str) -> str:
    if value.startswith("p0-7"):
        raise LookupError("no such thing")
    return value


def test_functions_from_end_to_end_over_a_restart(start_worker: StartWorker, unique_name: Name) -> None:
    topic, name = unique_name("functions"), unique_name("function_sink")
    source = {
        "connector.class": f"{HERE}:count", "topic": topic, "partitions": "3", "tasks.max": "2",
        "transforms": "odd,mark",
        "transforms.odd.type": "Filter", "transforms.odd.predicate": "even", "transforms.odd.negate": "true",
        "predicates": "even", "predicates.even.type": "Python", "predicates.even.function": f"{HERE}:is_even",
        "transforms.mark.type": "Python", "transforms.mark.function": f"{HERE}:marked", "transforms.mark.mark": "!",
    }  # fmt: skip
    expected = sorted(f"p{place}-{number}!" for place in range(3) for number in range(0, LAST, 2))
    worker = start_worker()
    worker.create("counting", source)
    worker.wait_for("counting", State.RUNNING, 1)
    assert sorted(map(str, worker.values(topic, len(expected)))) == expected
    worker.create(name, {"connector.class": f"{HERE}:collect", "topics": topic})
    eventually(lambda: sorted(delivered) == expected, f"all in the sink, and there are {len(delivered)}")
    worker.herder.close(WAIT_S)
    assert committed == [{"next": LAST}] * 3
    assert sorted(closed) == ["sink", "sink", "source", "source", "source"]  # the sink failed once, and was called anew

    again = start_worker()
    again.create("counting", source)
    # A generator begins with the first poll, which comes after RUNNING; one that has not begun does not end either.
    eventually(lambda: sorted(began) == ["p0", "p0", "p1", "p1", "p2", "p2"], "all generators once more")
    again.herder.close(WAIT_S)
    assert len(committed) == 6
    assert len(again.values(topic)) == len(expected)


def test_a_failure_names_the_function_and_its_line_and_bad_functions_are_found_by_validation(
    start_worker: StartWorker, unique_name: Name
) -> None:
    worker = start_worker()
    config = {
        "connector.class": f"{HERE}:count", "topic": unique_name("functions"),
        "transforms": "f", "transforms.f.type": "Python", "transforms.f.function": f"{HERE}:fragile",
    }  # fmt: skip
    worker.create("fragile", config)
    worker.wait_for("fragile", State.FAILED)
    first = worker.trace("fragile").splitlines()[0]
    assert "LookupError: no such thing (in function" in first
    assert f"{HERE}:fragile, {__file__}, line " in first
    assert "in transformation f (PythonTransformation), record for topic" in first

    # What PUT /connector-plugins/.../config/validate answers.
    bad = {**config, "name": "x", "transforms.f.function": f"{HERE}:fragil", "partitions": "many"}
    answer = worker.herder.validate("count", bad)
    errors = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"]}
    assert any("has no fragil. Did you mean fragile?" in error for error in errors["transforms.f.function"])
    assert errors["partitions"] == ["Invalid value many for configuration partitions: Not a number of type LONG"]

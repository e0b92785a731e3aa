"""Chains of transformations: order, predicates, drops, the record that fails."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from connect import ConfigDef, ConnectRecord, Predicate, RetriableError, SourceRecord, Transformation
from connect.plugins import Kind, PluginDesc, Plugins
from connect.transforms.chain import build_steps
from worker.errors.batch_failures import BatchFailures
from worker.errors.stages import RecordStage
from worker.tasks.transformation_chain import TransformationChain


class Append(Transformation):
    def configure(self, configs: Mapping[str, Any]) -> None:
        self.text = configs.get("text", "")
        self.configs = dict(configs)
        self.closed = 0

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value == "explode":
            raise KeyError("gone")
        if record.value == "drop":
            return None
        record.value += self.text
        return record

    def close(self) -> None:
        self.closed += 1


class AppendBatch(Append):
    """With a batch method, so it may be shown records again; it copies them."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return super().apply(copy.copy(record))

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        return [self.apply(record) for record in records]


class Forgetful(Append):
    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        return [self.apply(record) for record in records[1:]]


class Flaky(Append):
    left = 0
    seen: ClassVar[list[str]] = []

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        self.seen.append(record.value)
        if record.value == "later" and Flaky.left:
            Flaky.left -= 1
            raise RetriableError("not yet")
        return record


class Explosive(str):
    """Text that nothing can be added to."""

    def __add__(self, other: str) -> str:
        if other:
            raise ValueError("full")
        return self


class Kept(Append):
    made: ClassVar[list[Kept]] = []

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self.made.append(self)


class StartsWith(Predicate):
    def configure(self, configs: Mapping[str, Any]) -> None:
        self.text = configs["text"]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def test(self, record: ConnectRecord) -> bool:
        return bool(record.value.startswith(self.text))


def desc(kind: Kind, name: str) -> PluginDesc:
    return PluginDesc(kind, f"{__name__}:{name}", (), (name,), kind.value, "1", "tests")


PLUGINS = Plugins(
    [
        *(desc(Kind.TRANSFORMATION, name) for name in ("Append", "AppendBatch", "Forgetful", "Flaky", "Kept")),
        desc(Kind.PREDICATE, "StartsWith"),
    ],
)


def chain_of(**config: str) -> TransformationChain:
    props = {key.replace("__", "."): value for key, value in config.items()}
    return TransformationChain(build_steps(props, PLUGINS))


def records(*values: str) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"o": i}, "t", value=value) for i, value in enumerate(values)]


def applied(
    chain: TransformationChain, given: Sequence[ConnectRecord], failures: BatchFailures | None = None
) -> Sequence[ConnectRecord | None]:
    return chain.apply_batch(given, BatchFailures() if failures is None else failures)


def values(results: Sequence[ConnectRecord | None]) -> list[Any]:
    return [None if record is None else record.value for record in results]


def test_without_transforms_the_chain_is_falsy_and_changes_nothing() -> None:
    chain = chain_of()
    assert not chain
    assert values(applied(chain, records("a", "b"))) == ["a", "b"]


def test_steps_run_in_the_order_of_the_list() -> None:
    chain = chain_of(
        transforms="b, a",
        transforms__a__type="Append",
        transforms__a__text="A",
        transforms__b__type="Append",
        transforms__b__text="B",
    )
    assert values(applied(chain, records("x"))) == ["xBA"]


def test_dropped_records_leave_a_gap_and_are_seen_by_no_later_step() -> None:
    chain = chain_of(
        transforms="a,b",
        transforms__a__type="Append",
        transforms__a__text="1",
        transforms__b__type="Append",
        transforms__b__text="2",
    )
    assert values(applied(chain, records("x", "drop", "y"))) == ["x12", None, "y12"]


@pytest.mark.parametrize(("negate", "expected"), [("false", ["xa!", "y"]), ("TRUE", ["xa", "y!"])])
def test_a_predicate_chooses_and_negate_turns_it_round(negate: str, expected: list[str]) -> None:
    chain = chain_of(
        transforms="a",
        transforms__a__type="Append",
        transforms__a__text="!",
        transforms__a__predicate="p",
        transforms__a__negate=negate,
        predicates="p",
        predicates__p__type="StartsWith",
        predicates__p__text="x",
    )
    assert values(applied(chain, records("xa", "y"))) == expected


def test_the_error_of_a_failing_record_names_its_step_and_position() -> None:
    chain = chain_of(transforms="first", transforms__first__type="Append")
    failures = BatchFailures()
    assert values(applied(chain, records("a", "explode", "b"), failures)) == ["a", None, None]
    ((place, failure),) = failures
    assert place == 1
    assert failure.stage is RecordStage.TRANSFORMATION
    assert failure.alias == "first"
    assert isinstance(failure.reason, KeyError)
    assert failure.message == (
        "KeyError: 'gone' (in transformation first (Append), record for topic t, source partition {'p': 1}, "
        "source offset {'o': 1})"
    )


@pytest.mark.parametrize("kind", ["Append", "AppendBatch"])
def test_with_tolerance_the_other_records_continue(kind: str) -> None:
    chain = chain_of(
        transforms="a,b", transforms__a__type=kind, transforms__a__text="1", transforms__b__type=kind, transforms__b__text="2"
    )
    texts = [f"x{i}" for i in range(200)]
    for i in (0, 17, 18, 150, 199):
        texts[i] = "explode"
    texts[30] = "drop"
    failures = BatchFailures(tolerant=True)
    found = values(applied(chain, records(*texts), failures))
    assert found == [None if t in ("explode", "drop") else f"{t}12" for t in texts]
    assert [place for place, _ in failures] == [0, 17, 18, 150, 199]


def test_of_several_failures_the_first_record_counts_though_it_fails_in_a_later_step() -> None:
    chain = chain_of(
        transforms="a,b", transforms__a__type="AppendBatch", transforms__b__type="Append", transforms__b__text="!",
        transforms__b__predicate="p",
        predicates="p", predicates__p__type="StartsWith", predicates__p__text="2",
    )  # fmt: skip
    given = records("x", "2nd", "explode", "y")
    given[1].value = Explosive("2nd")
    failures = BatchFailures()
    assert values(applied(chain, given, failures)) == ["x", None, None, None]
    assert [(place, failure.alias) for place, failure in failures] == [(1, "b")]


def test_a_transformation_without_a_batch_method_sees_each_record_once() -> None:
    chain = chain_of(transforms="a", transforms__a__type="Append", transforms__a__text="!")
    found = values(applied(chain, records(*"abc", "explode", *"def"), BatchFailures(tolerant=True)))
    assert found == ["a!", "b!", "c!", None, "d!", "e!", "f!"]


def test_a_retried_transformation_continues_with_the_failed_record() -> None:
    Flaky.left = 2
    chain = chain_of(transforms="a", transforms__a__type="Flaky")

    def twice_more(operation: Any) -> Any:
        for _ in range(2):
            try:
                return operation()
            except RetriableError:
                continue
        return operation()

    failures = BatchFailures(attempt=twice_more)
    assert values(applied(chain, records("x", "later", "y"), failures)) == ["x", "later", "y"]
    assert not failures
    assert Flaky.seen == ["x", "later", "later", "later", "y"]


def test_a_predicate_that_fails_is_the_failure_of_its_record() -> None:
    chain = chain_of(
        transforms="a", transforms__a__type="Append", transforms__a__text="!", transforms__a__predicate="p",
        predicates="p", predicates__p__type="StartsWith", predicates__p__text="x",
    )  # fmt: skip
    given = records("xa", "y", "xb")
    given[1].value = 7
    failures = BatchFailures(tolerant=True)
    assert values(applied(chain, given, failures)) == ["xa!", None, "xb!"]
    assert [(place, type(failure.reason)) for place, failure in failures] == [(1, AttributeError)]


def test_a_batch_method_that_loses_records_is_reported() -> None:
    chain = chain_of(transforms="a", transforms__a__type="Forgetful")
    failures = BatchFailures(tolerant=True)
    assert values(applied(chain, records(*"abcdefghijkl"), failures)) == list("abcdefghijkl")


def test_a_step_receives_its_settings_without_those_of_the_framework() -> None:
    Kept.made.clear()
    chain_of(
        transforms="a",
        transforms__a__type="Kept",
        transforms__a__text="x",
        transforms__a__predicate="p",
        transforms__a__negate="false",
        predicates="p",
        predicates__p__type="StartsWith",
        predicates__p__text="x",
    )
    assert [step.configs for step in Kept.made] == [{"text": "x"}]


def test_a_chain_closes_its_steps() -> None:
    Kept.made.clear()
    chain_of(transforms="a,b", transforms__a__type="Kept", transforms__b__type="Kept").close()
    assert [step.closed for step in Kept.made] == [1, 1]

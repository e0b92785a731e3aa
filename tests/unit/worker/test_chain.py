"""Chains of transformations: order, predicates, drops, the record that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from connect import ConfigDef, ConnectRecord, Predicate, SourceRecord, Transformation
from connect.plugins import Kind, PluginDesc, Plugins
from connect.transforms.chain import build_steps
from worker.chain import TransformChain
from worker.stages import Stage, StageError


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
    [desc(Kind.TRANSFORMATION, "Append"), desc(Kind.TRANSFORMATION, "Kept"), desc(Kind.PREDICATE, "StartsWith")],
)


def chain_of(**config: str) -> TransformChain:
    props = {key.replace("__", "."): value for key, value in config.items()}
    return TransformChain(build_steps(props, PLUGINS))


def records(*values: str) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"o": i}, "t", value=value) for i, value in enumerate(values)]


def values(results: Sequence[ConnectRecord | None]) -> list[Any]:
    return [None if record is None else record.value for record in results]


def test_without_transforms_the_chain_is_falsy_and_changes_nothing() -> None:
    chain = chain_of()
    assert not chain
    assert values(chain.apply_batch(records("a", "b"))) == ["a", "b"]


def test_steps_run_in_the_order_of_the_list() -> None:
    chain = chain_of(
        transforms="b, a",
        transforms__a__type="Append",
        transforms__a__text="A",
        transforms__b__type="Append",
        transforms__b__text="B",
    )
    assert values(chain.apply_batch(records("x"))) == ["xBA"]


def test_dropped_records_leave_a_gap_and_are_seen_by_no_later_step() -> None:
    chain = chain_of(
        transforms="a,b",
        transforms__a__type="Append",
        transforms__a__text="1",
        transforms__b__type="Append",
        transforms__b__text="2",
    )
    assert values(chain.apply_batch(records("x", "drop", "y"))) == ["x12", None, "y12"]


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
    assert values(chain.apply_batch(records("xa", "y"))) == expected
    assert values([chain.apply(record) for record in records("xa", "y")]) == expected


def test_a_failing_record_is_named_with_step_and_place() -> None:
    chain = chain_of(transforms="first", transforms__first__type="Append")
    with pytest.raises(KeyError):
        chain.apply_batch(records("a", "explode"))
    with pytest.raises(StageError) as caught:
        chain.apply(records("a", "explode")[1])
    assert caught.value.stage is Stage.TRANSFORMATION
    assert caught.value.alias == "first"
    assert "KeyError" in caught.value.message
    assert "transformation first (Append), record for topic t, source offset {'o': 1}" in caught.value.message
    assert "explode" not in caught.value.message


def test_settings_go_to_the_step_without_those_of_the_framework() -> None:
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

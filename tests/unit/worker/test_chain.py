"""Chains of transformations: order, predicates, drops, the record that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from connect import ConfigDef, ConfigError, ConnectRecord, Predicate, SourceRecord, Transformation
from worker.chain import TransformChain, build_chain
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


class StartsWith(Predicate):
    def configure(self, configs: Mapping[str, Any]) -> None:
        self.text = configs["text"]

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def test(self, record: ConnectRecord) -> bool:
        return bool(record.value.startswith(self.text))


CLASSES: dict[str, Any] = {"Append": Append, "StartsWith": StartsWith}


def chain_of(**config: str) -> TransformChain:
    props = {key.replace("__", "."): value for key, value in config.items()}
    return build_chain(props, CLASSES.__getitem__, CLASSES.__getitem__)


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
    made: list[Append] = []

    class Kept(Append):
        def configure(self, configs: Mapping[str, Any]) -> None:
            super().configure(configs)
            made.append(self)

    build_chain(
        {"transforms": "a", "transforms.a.type": "Kept", "transforms.a.text": "x", "transforms.a.negate": "false"},
        lambda name: Kept,
        CLASSES.__getitem__,
    )
    assert made[0].configs == {"text": "x"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms": "a"}, 'Missing required configuration "transforms.a.type"'),
        ({"transforms": "a", "transforms.a.type": "Append", "transforms.a.predicate": "q"}, "no such predicate"),
    ],
)
def test_what_is_missing_is_named(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_chain(config, CLASSES.__getitem__, CLASSES.__getitem__)

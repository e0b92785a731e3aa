"""Messages between processes survive encoding and decoding, and invalid ones are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect import errors
from connect.errors import BadRequestError, ConfigError, ConnectError, DataError
from tests.unit.worker.executors.conftest import connector_spec, task_spec
from worker.executor import ConnectorSpec
from worker.executors import messages, wire
from worker.executors.wire import error_from_wire, error_to_wire
from worker.model import ErrorCounts, TaskId, TaskProgress
from worker.storage.offset_store import OffsetRecord

_TEXT = st.text(st.characters(exclude_categories=()))
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT | st.binary()
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=20)


@given(_VALUES)
def test_values_survive_encoding(value: Any) -> None:
    assert wire.decode(wire.encode(value)) == value


@pytest.mark.parametrize(
    "value", [{"$int": 1}, {"$map": []}, {"$": None, "a": 1}, {"$bytes": "x"}, 2**63, -(2**63) - 1, "\ud800"]
)
def test_values_that_look_like_tags_survive_encoding(value: Any) -> None:
    assert wire.decode(wire.encode({"v": value})) == {"v": value}


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {3}}])
def test_values_that_are_not_data_cannot_be_encoded(value: Any) -> None:
    with pytest.raises(DataError):
        wire.encode(value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"$x":1}', b'{"$bytes":"?"}', b'{"$int":"x"}', b'{"$map":1}', b"\xff", b"[" * 100_000]
)
def test_invalid_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(DataError):
        wire.decode(data)


@pytest.mark.parametrize(
    "kind",
    [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, ConnectError) and k is not errors.NotLeaderError],
)
def test_errors_keep_their_class_and_message(kind: type[ConnectError]) -> None:
    decoded = error_from_wire(wire.decode(wire.encode(error_to_wire(kind("what is wrong")))))
    assert type(decoded) is kind
    assert decoded.message == "what is wrong"


def test_error_whose_text_fails_survives_encoding() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise LookupError

    assert "no message: str() raised" in error_from_wire(error_to_wire(SilentError())).message


def test_other_errors_keep_their_message_and_config_errors_their_key() -> None:
    assert error_from_wire(error_to_wire(ValueError("no"))).message == "no"
    assert error_from_wire(error_to_wire(KeyError())).message == "KeyError"
    decoded = error_from_wire(error_to_wire(ConfigError.invalid("a.b", 1, "too small")))
    assert isinstance(decoded, ConfigError)
    assert decoded.key == "a.b"

    class OwnError(BadRequestError):
        pass

    assert type(error_from_wire(error_to_wire(OwnError("x")))) is BadRequestError


def test_specs_survive_encoding() -> None:
    spec = connector_spec("c", secret="${p:x}", gone="1")
    values = {key: value for key, value in spec.config.items() if key != "gone"} | {"secret": "s", "more": "2"}
    spec = ConnectorSpec("c", spec.given, values)
    assert messages.connector_of_plain(wire.decode(wire.encode(messages.connector_to_plain(spec)))) == spec
    task = task_spec("c", 3, paused=True)
    assert messages.task_of_plain(wire.decode(wire.encode(messages.task_to_plain(task)))) == task


def test_offsets_and_progress_survive_encoding() -> None:
    offsets: list[Any] = [({"a": b"\x00"}, None), (None, {"b": 2**70})]
    assert messages.offsets_of_plain(wire.decode(wire.encode(messages.offsets_to_plain(offsets)))) == offsets
    records = [OffsetRecord("t", 1, b"k", None)]
    assert messages.records_of_plain(wire.decode(wire.encode(messages.records_to_plain(records)))) == records
    progress = TaskProgress(1, 2, {"t-0": 3}, {"x": [1]}, ErrorCounts(1, 2, 3, 4, 5, 6, 7, 8))
    assert messages.progress_of_plain(wire.decode(wire.encode(messages.progress_to_plain(progress)))) == progress
    assert messages.progress_of_plain(messages.progress_to_plain(None)) is None
    several = {TaskId("a", 0): progress, TaskId("b", 1): TaskProgress()}
    assert messages.progresses_of_plain(wire.decode(wire.encode(messages.progresses_to_plain(several)))) == several


@pytest.mark.parametrize(
    ("read", "plain"),
    [
        (messages.id_of_plain, ["c"]),
        (messages.id_of_plain, "c-0"),
        (messages.offsets_of_plain, [[1, 2]]),
        (messages.records_of_plain, [["t", 0, "text", None]]),
        (messages.progress_of_plain, {"records": 1}),
        (messages.progresses_of_plain, [[["a", 0], None]]),
        (messages.task_configs_of_plain, [{"a": 1}]),
        (messages.task_configs_of_plain, {"a": "b"}),
        (messages.json_objects, [1]),
        (messages.texts, [1]),
        (messages.facts_of_plain, {}),
    ],
)
def test_messages_of_another_form_are_rejected(read: Any, plain: Any) -> None:
    with pytest.raises(DataError):
        read(plain)

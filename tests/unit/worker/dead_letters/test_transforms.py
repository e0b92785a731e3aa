"""Transformations that change dead letters before they are replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import connectors.registry.converter as shared
from connect.config.definition import ConfigDef
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.record import ConnectRecord, TopicPartition
from connect.transforms.api import Transformation
from connectors.registry.avro.converter import AvroConverter
from tests.unit.connectors.registry.conftest import MemoryRegistry
from tests.unit.worker.dead_letters.configs import SINK, SOURCE
from worker.config.secrets import SecretMask
from worker.dead_letters import replay as replays
from worker.dead_letters.checks import LetterChecks, record_to_write
from worker.dead_letters.letters import PREFIX, REPLAYED, DeadLetter
from worker.dead_letters.positions import ReplayPosition
from worker.dead_letters.reader import LetterChunk, LetterReader, LetterSource
from worker.dead_letters.requests import ReplayRequest
from worker.dead_letters.superseded import NewerRecords, mark_replayed
from worker.dead_letters.transforms import LetterTransforms
from worker.kafka.dead_letter_topic import CommittedPosition, RecordToWrite
from worker.kafka.stored_records import KafkaRecord
from worker.progress_reports import ignore_progress

AT = 1_700_000_000_000
HERE = "tests.unit.worker.dead_letters.test_transforms"
TEXT = {"transforms": "t", "transforms.t.type": f"{HERE}:Rewrite"}


class Rewrite(Transformation):
    """Does what the field ``do`` of a value without schema says."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        pass

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        value = record.value
        match value.get("do"):
            case "drop":
                return None
            case "fail":
                raise ValueError("hunter2hunter2 is no amount")
            case "in place":
                value["amount"] = "3"
            case "new":
                record.value = {"amount": "4"}
            case "unwritable":
                record.value = {"amount": object()}
            case "key":
                record.key = "other"
            case "header":
                record.ensure_headers().add("added", "x")
            case "route":
                record.topic, record.partition = "elsewhere", 2
            case "float":
                record.value = {"do": "float", "amount": 1.0}
        return record

    def close(self) -> None:
        pass


class Fixed(Rewrite):
    """Replaces texts, whatever they are."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        record.value = record.value.replace("'", '"')
        return record


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins.discover()


def letter(value: bytes | None, offset: int = 3, key: bytes | None = b"k") -> DeadLetter:
    context = {"topic": "orders", "partition": "1", "offset": str(offset + 4), "stage": "TRANSFORMATION"}
    headers = [("mine", b"\x00\xff"), *((PREFIX + name, text.encode()) for name, text in context.items())]
    return DeadLetter.of(KafkaRecord("dlq", 0, offset, AT, key, value, headers))


def transforms(plugins: Plugins, keys: Mapping[str, str] = TEXT, config: Mapping[str, str] = SINK) -> LetterTransforms:
    mask = SecretMask()
    mask.add({"db.password": "hunter2hunter2"})
    return LetterTransforms(keys, config, None, plugins, mask)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (b'{"amount":   1.10}', {}),
        (b'{"do":  "in place"}', {"value": b'{"do":"in place","amount":"3"}'}),
        (b'{"do":  "new"}', {"value": b'{"amount":"4"}'}),
        (b'{"do":  "key"}', {"key": b"other"}),
        (b'{"do": "float", "amount": 1}', {"value": b'{"do":"float","amount":1.0}'}),
    ],
)
def test_only_what_changes_is_encoded_again(value: bytes, changes: dict[str, bytes], plugins: Plugins) -> None:
    found = transforms(plugins)
    changed = found.apply(letter(value))
    found.close()
    assert changed.letter is not None
    stored = changed.letter.stored
    expected = {"key": b"k", "value": value, **changes}
    assert {"key": stored.key, "value": stored.value} == expected
    marks = [(REPLAYED, None)] if changes else []
    mine = ("mine", b"\x00\xff")
    assert changed.letter.original_headers == (mine,)
    assert mark_replayed(record_to_write(changed.letter, None, None), letter(value)).headers == (mine, *marks)
    assert (stored.partition, stored.offset, stored.timestamp_ms, changed.letter.origin) == (0, 3, AT, ("orders", 1, 7))
    assert changed.before is not None
    assert changed.before.value == json.loads(value)


def test_headers_and_destinations_can_change(plugins: Plugins) -> None:
    found = transforms(plugins)
    added = found.apply(letter(b'{"do": "header"}')).letter
    assert added is not None
    assert added.original_headers == (("mine", b"\x00\xff"), ("added", b"x"))
    routed = found.apply(letter(b'{"do": "route"}')).letter
    assert routed is not None
    assert routed.origin == ("elsewhere", 2, 7)
    found.close()


@pytest.mark.parametrize(
    ("value", "dropped_by", "failure"),
    [
        (b'{"do": "drop"}', "t", None),
        (b'{"do": "fail"}', None, ("apply", "t", "[hidden] is no amount")),
        (b'{"do": "unwritable"}', None, ("value.converter", None, "")),
        (b"{", None, ("value.converter", None, "")),
    ],
)
def test_a_dead_letter_that_cannot_be_changed_is_withheld(
    value: bytes, dropped_by: str | None, failure: tuple[str, str | None, str] | None, plugins: Plugins
) -> None:
    found = transforms(plugins)
    changed = found.apply(letter(value))
    found.close()
    assert (changed.letter, changed.dropped_by) == (None, dropped_by)
    if failure is None:
        assert changed.failure is None
    else:
        assert changed.failure is not None
        assert (changed.failure.stage, changed.failure.transform) == failure[:2]
        assert failure[2] in changed.failure.message


def test_other_converters_read_what_those_of_the_connector_cannot(plugins: Plugins) -> None:
    keys = {"transforms": "t", "transforms.t.type": f"{HERE}:Fixed", "value.converter": "String"}
    found = transforms(plugins, keys)
    changed = found.apply(letter(b"{'amount': 5}")).letter
    found.close()
    assert changed is not None
    assert changed.stored.value == b'{"amount": 5}'


def test_a_sources_record_is_changed_before_the_connectors_transformations(plugins: Plugins) -> None:
    record: dict[str, Any] = {
        "topic": "orders", "partition": None, "timestamp": 5, "key": None, "headers": [],
        "value": {"schema": None, "payload": {"do": "new"}}, "sourcePartition": {"f": "a"}, "sourceOffset": {"at": 1},
    }  # fmt: skip
    found = transforms(plugins, config=SOURCE)
    changed = found.apply(letter(json.dumps(record).encode())).letter
    found.close()
    assert changed is not None
    assert json.loads(changed.stored.value or b"")["value"]["payload"] == {"amount": "4"}
    assert json.loads(changed.stored.value or b"")["sourceOffset"] == {"at": 1}


def test_invalid_transformations_are_told_from_those_of_the_connector(plugins: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"^The transformations of the replay: .*com\.example\.Missing"):
        transforms(plugins, {**TEXT, "transforms.t.type": "com.example.Missing"})


class _Reader(LetterReader):
    """Has the dead letters of one partition; nothing is replayed yet."""

    def __init__(self, letters: Sequence[DeadLetter], plugins: Plugins) -> None:
        clients = {"bootstrap.servers": "b:1"}
        super().__init__(LetterSource("c", SINK, None, plugins, clients, clients, SecretMask()), None, ignore_progress)
        self.letters = list(letters)

    def ranges(self) -> dict[int, tuple[int, int]]:
        return {0: (0, len(self.letters))}

    def positions(self, ranges: Any) -> dict[int, ReplayPosition]:
        return {}

    def read(self, partition: int, first: int, end: int, selection: Any, positions: Any) -> Any:
        yield LetterChunk(self.letters[first:end], end, [])


class _Producer:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[RecordToWrite] = []
        self.stored: Mapping[int, CommittedPosition] = {}

    def positions(self, topic: str, partitions: Sequence[int]) -> dict[int, CommittedPosition]:
        return {}

    def write(self, records: Sequence[RecordToWrite], topic: str, stored: Mapping[int, CommittedPosition]) -> None:
        self.records += records
        self.stored = stored

    def close(self) -> None:
        pass


VALUES = [b'{"amount": "x", "do": "new"}', b'{"do": "drop"}', b'{"amount": "x"}', b'{"do": "fail"}', b'{"amount": "7"}']


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> _Producer:
    found = _Producer()
    monkeypatch.setattr(replays, "_make_producer", lambda reader: found)
    monkeypatch.setattr(replays, "topic_ranges", lambda java, topics: {TopicPartition(topics[0], at): (0, 9) for at in range(3)})
    return found


def _replay(plugins: Plugins, **more: Any) -> dict[str, Any]:
    letters = [letter(value, offset, f"k{offset}".encode()) for offset, value in enumerate(VALUES)]
    request = ReplayRequest.parse({"transforms": TEXT, "include_superseded": True, "dry_run": False, **more})
    return replays.replay(_Reader(letters, plugins), request)


def test_changed_records_are_replayed_in_order_and_others_stay_in_the_queue(plugins: Plugins, producer: _Producer) -> None:
    found = _replay(plugins)
    assert (found["checked"], found["replayed"]) == (5, 2)
    assert found["verdicts"] == {"passes": 2, "withheld": 2, "fails": 1}
    assert [(one.key, one.value) for one in producer.records] == [(b"k0", b'{"amount":"4"}'), (b"k4", b'{"amount": "7"}')]
    position = ReplayPosition.decode(*producer.stored[0])
    assert [offset in position for offset in range(5)] == [True, False, False, False, True]
    shown = {one["offset"]: one for one in found["letters"]}
    assert set(shown) == {1, 2, 3}
    assert (shown[1]["verdict"], shown[1]["dropped_by"], shown[1]["error"]) == ("withheld", "t", None)
    assert (shown[3]["verdict"], shown[3]["error"]["transform"]) == ("withheld", "t")


def test_a_dry_run_shows_what_the_replay_and_the_connector_change(plugins: Plugins, producer: _Producer) -> None:
    found = _replay(plugins, dry_run=True)
    assert producer.records == []
    first = found["letters"][0]
    payloads = [first[stage]["value"]["payload"] for stage in ("before", "changed", "after")]
    assert payloads == [{"amount": "x", "do": "new"}, {"amount": "4"}, {"amount": {"$t": "int32", "v": 4}}]


def test_without_a_check_only_the_transformations_of_the_replay_run(plugins: Plugins, producer: _Producer) -> None:
    found = _replay(plugins, check=False)
    assert found["verdicts"] == {"unchecked": 3, "withheld": 2}
    assert [one.value for one in producer.records] == [b'{"amount":"4"}', VALUES[2], VALUES[4]]
    shown = _replay(plugins, check=False, dry_run=True)["letters"][0]
    assert (shown["verdict"], shown["changed"]["value"]["payload"]) == ("unchecked", {"amount": "4"})


def test_records_that_a_replay_has_changed_do_not_supersede_dead_letters(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = transforms(plugins)
    first, second = letter(b'{"do": "new"}', 0), letter(b'{"amount": "x"}', 1)
    changed = found.apply(first).letter
    found.close()
    assert changed is not None
    headers = mark_replayed(record_to_write(changed, None, None), first).headers
    written = changed.stored._replace(topic="orders", partition=1, offset=50, headers=headers)
    partition = TopicPartition("orders", 1)
    monkeypatch.setattr("worker.dead_letters.superseded.topic_ranges", lambda java, topics: {partition: (0, 51)})
    monkeypatch.setattr("worker.dead_letters.superseded.read_stored", lambda java, one, first, end: iter([[written]]))
    newer = NewerRecords()
    newer.add([first, second])
    newer.read({}, lambda: False, lambda done, total: None)
    assert not newer.supersedes(second)
    newer = NewerRecords()
    newer.add([first, second])
    written = written._replace(headers=[])  # someone else's
    newer.read({}, lambda: False, lambda done, total: None)
    assert newer.supersedes(second)


def test_a_transformation_of_the_connector_that_changes_its_record_is_shown_before_and_after(plugins: Plugins) -> None:
    config = {**SINK, "transforms.a.type": f"{HERE}:Rewrite"}
    checks = LetterChecks(
        {key: value for key, value in config.items() if key != "transforms.a.spec"}, None, plugins, SecretMask()
    )
    check = checks.check(letter(b'{"do": "in place"}'))
    checks.close()
    assert check.before is not None
    assert check.after is not None
    assert (check.before.value, check.after.value) == ({"do": "in place"}, {"do": "in place", "amount": "3"})


SCHEMA = SchemaBuilder.struct().name("shop.Order").field("amount", Schema.STRING).field("note", Schema.OPTIONAL_STRING).build()
AVRO = {"value.converter": "Avro", "value.converter.schema.registry.url": "http://localhost:8081"}
MASK = {"transforms": "m", "transforms.m.type": "MaskFieldValue", "transforms.m.fields": "amount",
        "transforms.m.replacement": "0"}  # fmt: skip


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    found = MemoryRegistry()
    monkeypatch.setattr(shared, "SchemaRegistry", lambda settings: found)
    return found


def _avro(value: str) -> tuple[AvroConverter, DeadLetter]:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": "http://localhost:8081"}, False)
    return converter, letter(converter.from_connect_data("orders", SCHEMA, Struct(SCHEMA, [value, "n"])))


def test_a_record_of_a_schema_registry_keeps_its_schema_if_its_fields_are_the_same(
    plugins: Plugins, registry: MemoryRegistry
) -> None:
    converter, given = _avro("x")
    found = transforms(plugins, MASK, {**SINK, **AVRO})
    changed = found.apply(given).letter
    found.close()
    assert changed is not None
    assert given.stored.value is not None
    assert changed.stored.value is not None
    assert changed.stored.value[:5] == given.stored.value[:5]
    assert converter.to_connect_data("orders", changed.stored.value).value.get("amount") == "0"
    assert registry.subjects == {"orders-value": [1]}


def test_a_record_with_other_fields_gets_a_schema_as_its_converter_is_configured(
    plugins: Plugins, registry: MemoryRegistry
) -> None:
    converter, given = _avro("5")
    keys = {"transforms": "c", "transforms.c.type": "CastValue", "transforms.c.spec": "amount:int32"}
    refused = transforms(plugins, keys, {**SINK, **AVRO, "value.converter.auto.register.schemas": "false"})
    changed = refused.apply(given)
    refused.close()
    assert changed.letter is None
    assert changed.failure is not None
    assert "auto.register.schemas is false" in changed.failure.message
    found = transforms(plugins, keys, {**SINK, **AVRO})
    letter_ = found.apply(given).letter
    found.close()
    assert letter_ is not None
    assert converter.to_connect_data("orders", letter_.stored.value).value.get("amount") == 5
    assert len(registry.subjects["orders-value"]) == 2

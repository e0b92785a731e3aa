"""Dead letters that transformations change before they are replayed, with a real broker and a real schema registry."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connectors.registry.avro.converter import AvroConverter
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.dead_letters.queue_case import QueueCase
from tests.support.registry import EmbeddedRegistry
from tests.support.waiting import WAIT_S
from worker.dead_letters.letters import REPLAYED

Name = Callable[[str], str]
REPLAY = {"action": "replay", "dry_run": False}
BAD, GOOD = b'{"amount": "x"}', b'{"amount":   "5"}'
WITHOUT_TESTS = {
    "transforms": "test,amount",
    "transforms.test.type": "Filter", "transforms.test.predicate": "isTest",
    "transforms.amount.type": "MaskFieldValue", "transforms.amount.fields": "amount", "transforms.amount.replacement": "0",
    "predicates": "isTest", "predicates.isTest.type": "HasHeaderKey", "predicates.isTest.name": "test",
}  # fmt: skip
"""Drops records with the header test, and replaces the amount."""


@pytest.fixture
def case(broker: EmbeddedBroker, unique_name: Name) -> QueueCase:
    return QueueCase.create(broker.bootstrap, unique_name)


@pytest.mark.long
def test_changed_records_are_written_in_order_once_and_dropped_ones_stay(case: QueueCase) -> None:
    letters = [case.letter(number, BAD, key="k", origin_partition=number % 2) for number in range(6)]
    letters[2]["headers"].append(("test", b""))
    letters.append(case.letter(6, b"{", key="k"))
    case.produce(case.queue, letters)
    request = {**REPLAY, "transforms": WITHOUT_TESTS}
    dry = case.answer({**request, "dry_run": True})
    assert dry["verdicts"] == {"passes": 5, "withheld": 2}
    first = dry["letters"][0]
    assert [first[stage]["value"]["payload"]["amount"] for stage in ("before", "changed")] == ["x", "0"]
    assert first["after"]["value"]["payload"]["amount"] == {"$t": "int32", "v": 0}
    assert dry["letters"][2]["dropped_by"] == "test"
    assert dry["letters"][6]["error"]["stage"] == "value.converter"
    assert case.committed(case.topic) == []

    # In parts: what the first one has written supersedes nothing of the second one.
    part = case.answer({**request, "limit": 2})
    assert (part["replayed"], part["complete"]) == (2, False)
    assert case.answer({**request, "next": part["next"]})["verdicts"] == {"passes": 3, "withheld": 2}
    found = case.committed(case.topic, 5)
    assert [(one.partition(), one.timestamp()[1] - 1_700_000_000_000) for one in found] == [
        (0, 0),
        (0, 4),
        (1, 1),
        (1, 3),
        (1, 5),
    ]
    assert {one.value() for one in found} == {b'{"amount":"0"}'}
    assert found[0].headers() == [("mine", b"\x00\xff"), ("none", None), (REPLAYED, None)]
    left = case.answer({"action": "list"})
    assert ([one["offset"] for one in left["letters"]], left["left"]) == ([2, 6], 2)
    assert case.answer(request)["replayed"] == 0
    # Those that are left can be replayed with other transformations.
    text = {"transforms": "all", "transforms.all.type": "ReplaceFieldValue", "transforms.all.exclude": "amount"}
    assert case.answer({**REPLAY, "transforms": text, "selection": {"offsets": "2"}})["replayed"] == 1
    assert case.answer({"action": "list"})["left"] == 1


@pytest.fixture
def avro(registry: EmbeddedRegistry) -> dict[str, str]:
    return {"value.converter": "Avro", "value.converter.schema.registry.url": registry.url}


@pytest.mark.long
def test_records_of_a_schema_registry_are_read_and_written_with_its_schemas(case: QueueCase, avro: dict[str, str]) -> None:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": avro["value.converter.schema.registry.url"]}, False)
    schema = (
        SchemaBuilder.struct().name("shop.Order").field("amount", Schema.STRING).field("note", Schema.OPTIONAL_STRING).build()
    )
    values = [converter.from_connect_data(case.topic, schema, Struct(schema, [amount, "n"])) for amount in ("x", "5")]
    case.produce(case.queue, [case.letter(number, value) for number, value in enumerate(values)])
    mask = {key: value for key, value in WITHOUT_TESTS.items() if key.startswith("transforms.amount.")}
    answer = case.answer({**REPLAY, "transforms": {**mask, "transforms": "amount"}}, avro)
    assert answer["verdicts"] == {"passes": 2}, answer
    read: list[Any] = [converter.to_connect_data(case.topic, found.value()) for found in case.committed(case.topic, 2)]
    assert [(found.value.get("amount"), found.value.get("note")) for found in read] == [("0", "n"), ("0", "n")]
    converter.close()
    url = f"{avro['value.converter.schema.registry.url']}/subjects/{case.topic}-value/versions"
    with urllib.request.urlopen(url, timeout=WAIT_S) as versions:
        assert json.load(versions) == [1]

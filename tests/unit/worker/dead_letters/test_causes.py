"""Dead letters: their headers, causes, and hints."""

from __future__ import annotations

from typing import Any

import pytest

from worker.dead_letters.causes import MAX_CAUSES, CauseGroups, cause_of, find_field, normalize_message
from worker.dead_letters.hints import hint_for
from worker.dead_letters.letters import (
    PREFIX,
    DeadLetter,
    LetterSelection,
    dead_letter_topic,
    is_source_queue,
    parse_offsets,
    shown_bytes,
)
from worker.kafka.stored_records import KafkaRecord

CAST = "org.apache.kafka.connect.transforms.Cast$Value"
CONFIG = {"transforms": "a, b", "transforms.a.type": "Cast$Value", "transforms.b.type": "org.apache...InsertField$Value"}


def letter(at: int = 0, *, value: bytes | None = b"{}", at_ms: int | None = 5, **context: str | None) -> DeadLetter:
    found: dict[str, str | None] = {
        "topic": "orders", "partition": "1", "offset": "7", "connector.name": "sink", "stage": "TRANSFORMATION",
        "class.name": CAST, "exception.class.name": "org.apache.kafka.connect.errors.DataException",
        "exception.message": "Field 'amount' is bad: 17",
    }  # fmt: skip
    found |= {name.replace("_", "."): text for name, text in context.items()}
    headers: list[tuple[str, bytes | None]] = [("mine", b"\x00")]
    headers += [(PREFIX + name, None if text is None else text.encode()) for name, text in found.items()]
    return DeadLetter.of(KafkaRecord("dlq", 0, at, at_ms, b"k", value, headers))


def test_headers_are_read_and_removed() -> None:
    one = letter()
    assert one.origin == ("orders", 1, 7)
    assert one.original_headers == (("mine", b"\x00"),)
    assert (one.context.task, one.context.stage) == (None, "TRANSFORMATION")
    assert one.is_of("sink")
    assert not one.is_of("other")
    bare = DeadLetter.of(KafkaRecord("dlq", 0, 1, None, None, None, []))
    assert (bare.origin, bare.is_of("any")) == (None, True)
    assert letter(partition='{"file": "a"}').origin is None


def test_a_record_that_failed_twice_has_the_context_of_its_last_failure() -> None:
    first = letter()
    again = letter(stage="TASK_PUT", offset="9").stored.headers
    both = DeadLetter.of(first.stored._replace(headers=[*first.stored.headers, *again]))
    assert (both.context.stage, both.origin) == ("TASK_PUT", ("orders", 1, 9))


@pytest.mark.parametrize(
    ("message", "normal", "field"),
    [
        ("Field 'amount' is bad: 17", "Field '...' is bad: <number>", "amount"),
        ('For input string: "12x"', 'For input string: "..."', None),
        ("Value (12x) was out of range", "value (...) was out of range", None),
        ("field does not exist: id", "field does not exist: id", None),
        ("row 2026-11-26T08:00:00Z of 0b8f4c2e-1111-4222-8333-444455556666", "row <time> of <uuid>", None),
        ('null value in column "price" violates', 'null value in column "..." violates', "price"),
        ("bytes 0xdeadbeef, offset -12.5e3\nsecond line", "bytes <hex>, offset <number>", None),
    ],
)
def test_messages_are_compared_without_the_values_of_records(message: str, normal: str, field: str | None) -> None:
    assert normalize_message(message) == normal
    assert find_field(message) == field


def test_dead_letters_with_the_same_cause_are_counted_together() -> None:
    groups = CauseGroups(CONFIG)
    groups.add(letter(number, at_ms=number, exception_message=f"Field 'amount' is bad: {number}") for number in range(3, 9))
    groups.add([letter(9, exception_message="Field 'price' is bad: 1"), letter(10, stage="TASK_PUT", at_ms=None)])
    first, *others = groups.as_json()
    assert {key: first[key] for key in ("count", "first_ms", "last_ms", "stage", "transform", "field", "message")} == {
        "count": 6, "first_ms": 3, "last_ms": 8, "stage": "TRANSFORMATION", "transform": "a", "field": "amount",
        "message": "Field '...' is bad: <number>",
    }  # fmt: skip
    assert first["example"] == {"partition": 0, "offset": 8, "message": "Field 'amount' is bad: 8", "origin": ["orders", 1, 7]}
    assert first["id"] == cause_of(letter(), CONFIG).id != others[0]["id"]
    assert sorted((one["field"], one["stage"], one["transform"]) for one in others) == [
        ("amount", "TASK_PUT", None), ("price", "TRANSFORMATION", "a")
    ]  # fmt: skip


def test_dead_letters_of_too_many_causes_are_counted_as_one_other_group() -> None:
    groups = CauseGroups(CONFIG)
    words = ["g" * (at // 40) + "h" * (at % 40) for at in range(MAX_CAUSES + 7)]
    letters = [letter(at, at_ms=at, stage="TASK_PUT", exception_message=f"{word} is bad") for at, word in enumerate(words)]
    groups.add(letters)
    groups.add(letters[:1])  # a known cause is still counted
    first, *_, other = found = groups.as_json()
    assert len(found) == MAX_CAUSES + 1
    assert first["count"] == 2
    assert (other["id"], other["count"], other["first_ms"], other["last_ms"]) == ("other", 7, MAX_CAUSES, MAX_CAUSES + 6)
    assert (other["stage"], other["message"], other["example"]["offset"]) == (None, None, MAX_CAUSES + 6)
    assert "beyond the first 1000" in other["hint"]


def test_an_alias_is_named_only_if_it_is_the_only_one_of_its_class() -> None:
    twice = {**CONFIG, "transforms.b.type": CAST}
    assert cause_of(letter(), twice).transform is None
    assert (
        cause_of(letter(class_name="shop.transforms:Clean"), {"transforms": "c", "transforms.c.type": "shop.transforms:Clean"})[2]
        == "c"
    )


@pytest.mark.parametrize(
    ("context", "value", "hint"),
    [
        ({"stage": None}, b"{}", "errors.deadletterqueue.context.headers.enable=true"),
        (
            {"stage": "VALUE_CONVERTER", "class_name": "a.JsonConverter", "exception_message": "with schemas.enable"},
            b"{}", "set value.converter=JsonConverter and value.converter.schemas.enable=false",
        ),
        ({"stage": "VALUE_CONVERTER", "class_name": "a.JsonConverter"}, b"\x00\x00\x00\x00\x07abc", "those of a schema registry"),
        ({"stage": "KEY_CONVERTER", "class_name": "a.JsonConverter"}, b"x", "correct their producer, or set key.converter"),
        ({"stage": "VALUE_CONVERTER", "class_name": "a.Avro", "exception_message": "magic byte"}, b"x", "not written"),
        ({"exception_message": "Only Struct objects supported for [x]"}, b"x", "transforms.a needs a record with fields"),
        ({}, b"x", "Field amount has a value that transforms.a cannot handle"),
        ({"exception_message": "odd"}, b"x", "Change the settings of transforms.a"),
        ({"stage": "TASK_PUT"}, b"x", "the system behind the sink rejected the record: check amount in the target"),
        ({"stage": "KAFKA_PRODUCE", "exception_message": "record too large"}, b"x", "Raise producer.override.max.request.size"),
    ],
)  # fmt: skip
def test_hints(context: dict[str, Any], value: bytes, hint: str) -> None:
    one = letter(value=value, **context)
    found = hint_for(one.context.stage, cause_of(one, CONFIG), value, CONFIG)
    assert found is not None
    assert hint in found


def test_the_queue_of_a_connector() -> None:
    sink, source = {"errors.deadletterqueue.topic.name": " a "}, {"errors.deadletterqueue.source.topic.name": "b"}
    assert [dead_letter_topic(one) for one in (sink, source, {})] == ["a", "b", None]
    assert [is_source_queue(one) for one in (sink, source)] == [False, True]


def test_bytes_are_shown_as_text_or_hex() -> None:
    assert shown_bytes(None, 9) is None
    assert shown_bytes("aé".encode(), 9) == {"size": 3, "text": "aé"}
    assert shown_bytes("aé".encode(), 2) == {"size": 3, "text": "a", "is_truncated": True}
    assert shown_bytes(b"\xff\x00", 9) == {"size": 2, "hex": "ff 00"}
    assert parse_offsets("5-9, 12") == ((5, 9), (12, 12))
    assert parse_offsets("30,1-4,3-9,10,20-20") == ((1, 10), (20, 20), (30, 30))
    selection = LetterSelection(offsets=parse_offsets("12,5-9"))
    assert [offset for offset in range(15) if selection.contains(0, offset)] == [5, 6, 7, 8, 9, 12]
    for bad in ("", "9-5", "-1", "a"):
        with pytest.raises(ValueError, match=r".*"):
            parse_offsets(bad)

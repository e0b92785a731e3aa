"""Dead letters run through a configuration: which would pass, and which records a replay writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from connect.errors import BadRequestError, ConfigError
from connect.plugins import Plugins
from connect.record import ConnectRecord
from tests.unit.worker.dead_letters.configs import SINK, SOURCE
from worker.config.secrets import SecretMask
from worker.dead_letters.checks import LetterChecks, Verdict, check_json, letter_json, make_checks, record_to_write
from worker.dead_letters.letters import PREFIX, DeadLetter
from worker.dead_letters.requests import ReplayRequest, parse_selection
from worker.kafka.dead_letter_topic import RecordToWrite
from worker.kafka.stored_records import KafkaRecord
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import PreviewFailure

SECRET = "hunter2hunter2"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins.discover()


def letter(value: bytes | None, stage: str = "TRANSFORMATION", partition: str = "1", key: bytes | None = b"k") -> DeadLetter:
    context = {"topic": "orders", "partition": partition, "offset": "7", "stage": stage}
    headers = [("mine", b"1"), *((PREFIX + name, text.encode()) for name, text in context.items())]
    return DeadLetter.of(KafkaRecord("dlq", 0, 3, 1_700_000_000_000, key, value, headers))


def checks(config: Mapping[str, str], plugins: Plugins, mask: SecretMask | None = None) -> LetterChecks:
    return LetterChecks(config, None, plugins, mask or SecretMask())


def test_a_sinks_record_passes_fails_or_is_dropped_as_in_its_task(plugins: Plugins) -> None:
    found = checks(SINK, plugins)
    good = found.check(letter(b'{"amount": "5"}'))
    assert (good.verdict, good.after and good.after.value) == (Verdict.PASSES, {"amount": 5})
    assert good.before is not None
    assert (good.before.topic, good.before.partition, good.before.timestamp) == ("orders", 1, 1_700_000_000_000)
    bad = found.check(letter(b'{"amount": "x"}'))
    assert (bad.verdict, bad.failure and bad.failure.transform) == (Verdict.FAILS, "a")
    assert check_json(letter(b""), bad)["before"]["value"]["payload"] == {"amount": "x"}
    unread = found.check(letter(b"{"))
    assert (unread.verdict, unread.failure and unread.failure.stage) == (Verdict.FAILS, "value.converter")
    assert found.check(letter(b'{"amount": "5"}', stage="TASK_PUT")).verdict is Verdict.UNVERIFIED
    found.close()
    drop = {**SINK, "transforms.a.type": "org.apache.kafka.connect.transforms.Filter"}
    found = checks({key: value for key, value in drop.items() if key != "transforms.a.spec"}, plugins)
    assert found.check(letter(b"{}")).verdict is Verdict.DROPPED
    found.close()


def test_record_is_decoded_once(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    read = PreviewConverters.read

    def count_reads(converters: PreviewConverters, message: Message, offset: int) -> ConnectRecord | PreviewFailure:
        decoded.append(offset)
        return read(converters, message, offset)

    monkeypatch.setattr(PreviewConverters, "read", count_reads)
    found = checks(SINK, plugins)
    assert found.check(letter(b'{"amount": "5"}')).verdict is Verdict.PASSES
    found.close()
    assert decoded == [7]


def test_a_replay_writes_the_bytes_of_a_sinks_record_as_they_were() -> None:
    one = letter(b"\x00\xff")
    expected = RecordToWrite("orders", 1, 1_700_000_000_000, b"k", b"\x00\xff", (("mine", b"1"),))
    assert record_to_write(one, None, None) == expected
    assert record_to_write(one, None, "other") == expected._replace(topic="other")
    bare = DeadLetter.of(KafkaRecord("dlq", 0, 3, 5, None, b"v", []))
    assert record_to_write(bare, None, "other") == RecordToWrite("other", None, 5, None, b"v", ())
    with pytest.raises(ConfigError, match="at offset 3 of dlq-0 does not name its original topic; name one with --to"):
        record_to_write(bare, None, None)


def test_a_sources_record_is_created_from_its_json_with_the_configuration_of_now(plugins: Plugins) -> None:
    record: dict[str, Any] = {
        "topic": "orders", "partition": None, "timestamp": 5, "key": {"schema": None, "payload": "k"},
        "value": {"schema": None, "payload": {"amount": 5}}, "headers": [],
        "sourcePartition": {"file": "a"}, "sourceOffset": {"at": 1},
    }  # fmt: skip
    one = letter(json.dumps(record).encode(), partition='{"file": "a"}')
    found = checks({**SOURCE, "transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "(.*)",
                    "transforms.r.replacement": "new-$1"}, plugins)  # fmt: skip
    check = found.check(one)
    assert check.verdict is Verdict.PASSES
    assert record_to_write(one, check, None) == RecordToWrite("new-orders", None, 5, b"k", b'{"amount":5}', ())
    for value, message in (
        (b"no json", "not JSON"),
        (None, "it has no value"),
        (b'{"topic": "t", "value": {"omitted": "9 bytes"}, "key": null}', "only its text"),
    ):
        failed = found.check(letter(value))
        assert failed.verdict is Verdict.FAILS
        assert message in str(failed.failure)
    found.close()


def test_parts_that_converters_can_read_are_decoded(plugins: Plugins) -> None:
    found = checks(SINK, plugins)
    one = letter(b'{"amount": "x"}')
    shown = letter_json(one, "c", replayed=False, decoded=found.decode(one), with_trace=False)
    assert shown["key"] == {"size": 1, "text": "k", "decoded": "k"}
    assert shown["value"] == {"size": 15, "text": '{"amount": "x"}', "decoded": {"amount": "x"}}
    assert shown["headers"] == [{"key": "mine", "value": {"size": 1, "text": "1"}}]
    assert "trace" not in shown["context"]
    assert found.decode(letter(b"{", key=None)) == {}
    found.close()


def test_messages_hide_secrets_and_a_missing_class_is_no_error_for_showing(plugins: Plugins) -> None:
    mask = SecretMask()
    mask.add({"db.password": SECRET})
    found = checks(SINK, plugins, mask)
    failed = found.check(letter(f'{{"amount": "{SECRET}"}}'.encode()))
    assert SECRET not in str(failed.failure)
    found.close()
    without = make_checks({**SINK, "transforms.a.type": "com.example.Missing"}, None, plugins, mask)
    assert isinstance(without, str)
    assert "com.example.Missing" in without


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"selection": 5}, '"selection" is not an object'),
        ({"selection": {"group": "a"}}, 'Unknown member "group" of "selection"; expected cause, partition'),
        ({"selection": {"partition": "a"}}, '"selection" has a member of the wrong type'),
        ({"selection": {"offsets": "9-5"}}, "Offsets '9-5' are not of the form 5-9,12"),
        ({"limit": -1}, '"limit" is not a number from 0'),
        ({"dry_run": "yes"}, '"dry_run" is neither true nor false'),
        ({"to": ""}, '"to" is not the name of a topic'),
        ({"transforms": {"transforms": 5}}, '"transforms" is not an object of strings'),
        ({"transforms": {"transforms": "a", "topics": "t"}}, "topics does not belong to the transformations of a replay"),
        ({"transforms": {"transformsx": "a"}}, "transformsx does not belong to the transformations"),
        ({"transforms": {"predicates": "a"}}, "have no key transforms, which lists them"),
        (
            {"transforms": {"transforms": "a", "value.converter.x": "y"}},
            "value.converter.x has no effect without value.converter",
        ),
        ({"next": {"a": 1}}, '"next" is not that of an earlier response'),
    ],
)
def test_malformed_requests_are_refused(request_: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        ReplayRequest.parse(request_)
    assert message in caught.value.message


def test_requests_only_check_unless_they_say_otherwise() -> None:
    parsed = ReplayRequest.parse({"next": {"0": 5}, "selection": {"cause": "ab", "offsets": "1-2"}})
    assert (parsed.dry_run, parsed.is_checked, parsed.include_superseded, parsed.start) == (True, True, False, {0: 5})
    assert parsed.selection.contains(0, 2)
    assert not parsed.selection.contains(0, 3)
    assert not parse_selection({"partition": 1}).contains(0, 2)

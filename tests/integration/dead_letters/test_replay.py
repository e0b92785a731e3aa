"""Dead letters with a real broker: reading, grouping, and replaying them, also when the process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from connect.errors import ConnectError, IllegalStateError, NotFoundError
from connect.record import TopicPartition
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.dead_letters.queue_case import EDIT, QueueCase
from tests.support.waiting import WAIT_S
from worker.dead_letters.positions import replay_group
from worker.kafka.dead_letter_topic import CommittedPosition, RecordToWrite, ReplayProducer
from worker.kafka.stored_records import read_stored

Name = Callable[[str], str]
ROOT = Path(__file__).parents[3]
REPLAY = {"action": "replay", "dry_run": False}
BAD = b'{"amount": "x"}'
MASK = {
    "transforms": "m", "transforms.m.type": "MaskFieldValue", "transforms.m.fields": "amount", "transforms.m.replacement": "0",
}  # fmt: skip
_PROGRAM = """
import json, sys
from tests.integration.dead_letters.queue_case import EDIT, QueueCase
from worker.dead_letters import replay
replay._BATCH_RECORDS = 4
request = {"action": "replay", "dry_run": False, **json.loads(sys.argv[1])}
print(json.dumps(QueueCase(*sys.argv[2:]).answer(request, {**EDIT, "value.converter": "Json"})))
"""


@pytest.fixture
def case(broker: EmbeddedBroker, unique_name: Name) -> QueueCase:
    return QueueCase.create(broker.bootstrap, unique_name)


def test_dead_letters_are_listed_grouped_and_decoded(case: QueueCase) -> None:
    case.produce(case.queue, [case.letter(number, BAD, origin_partition=number % 2) for number in range(30)])
    case.produce(
        case.queue, [case.letter(30, b"{", stage="VALUE_CONVERTER", message="no JSON"), case.letter(5, BAD, connector="other")]
    )
    answer = case.answer({"action": "list", "limit": 3})
    assert (answer["topic"], answer["records"], answer["left"], answer["complete"]) == (case.queue, 32, 32, True)
    assert [one["offset"] for one in answer["letters"]] == [28, 29, 30]
    first = answer["letters"][0]
    assert first["value"] == {"size": 15, "text": '{"amount": "x"}', "decoded": {"amount": "x"}}
    assert (first["context"]["topic"], first["context"]["partition"], first["context"]["offset"]) == (case.topic, "0", "28")
    assert "decoded" not in answer["letters"][2]["value"]
    causes = case.answer({"action": "causes"})
    assert (causes["letters"], [one["count"] for one in causes["causes"]]) == (31, [30, 1])
    assert (causes["causes"][0]["transform"], causes["causes"][0]["field"]) == ("amount", "amount")
    selection = {"cause": causes["causes"][1]["id"][:5]}
    assert [one["offset"] for one in case.answer({"action": "list", "selection": selection})["letters"]] == [30]
    assert [one["offset"] for one in case.answer({"action": "list", "selection": {"offsets": "3-4"}})["letters"]] == [3, 4]


def test_a_dry_run_shows_what_would_pass_with_an_edit_and_writes_nothing(case: QueueCase) -> None:
    case.produce(case.queue, [case.letter(0, BAD), case.letter(1, b'{"amount": "5"}'), case.letter(2, BAD, stage="TASK_PUT")])
    answer = case.answer({"action": "replay"})
    assert (answer["verdicts"], answer["replayed"]) == ({"fails": 2, "passes": 1}, 0)
    assert answer["letters"][0]["error"]["transform"] == "amount"
    assert answer["letters"][1]["after"]["value"]["payload"] == {"amount": {"$t": "int32", "v": 5}}
    answer = case.answer({"action": "replay"}, EDIT)
    assert answer["verdicts"] == {"passes": 2, "unverified": 1}
    assert case.committed(case.topic) == []
    part = case.answer({"action": "replay", "limit": 2}, EDIT)
    assert (part["checked"], part["complete"], part["next"]) == (2, False, {"0": 2})
    assert case.answer({"action": "replay", "next": part["next"]}, EDIT)["checked"] == 1


def test_a_replay_writes_original_records_in_order_once_and_leaves_those_that_fail(case: QueueCase) -> None:
    values = [BAD if number % 5 == 2 else b'{"amount": "%d"}' % number for number in range(20)]
    case.produce(case.queue, [case.letter(number, value, origin_partition=number % 2) for number, value in enumerate(values)])
    answer = case.answer(REPLAY)
    assert (answer["replayed"], answer["verdicts"]) == (16, {"passes": 16, "fails": 4})
    found = case.committed(case.topic, 16)
    good = [number for number in range(20) if number % 5 != 2]
    assert [one.key() for one in found] == [f"k{number}".encode() for number in sorted(good, key=lambda one: one % 2)]
    assert [one.partition() for one in found] == sorted(number % 2 for number in good)
    first = found[0]
    assert (first.headers(), first.timestamp()[1], first.value()) == (
        [("mine", b"\x00\xff"), ("none", None)],
        1_700_000_000_000,
        values[0],
    )
    assert case.answer({**REPLAY, "include_superseded": True})["replayed"] == 0
    left = case.answer({"action": "list"})
    assert ([one["offset"] for one in left["letters"]], left["left"]) == ([2, 7, 12, 17], 4)
    everything = case.answer({"action": "list", "selection": {"with_replayed": True}})["letters"]
    assert [one["offset"] for one in everything if not one["replayed"]] == [2, 7, 12, 17]
    # With the connector's new configuration, the others follow.
    assert case.answer({**REPLAY, "include_superseded": True}, EDIT)["replayed"] == 4
    assert len(case.committed(case.topic, 20)) == 20
    assert case.answer({"action": "list"})["left"] == 0


def test_an_older_record_is_not_put_over_a_newer_one_of_the_same_key(case: QueueCase) -> None:
    at = 1_700_000_000_000
    records = [("a", b"old"), ("b", b"old"), ("a", b"new"), ("c", b"1"), ("c", b"2"), (None, b"n"), ("b", b"last")]
    case.produce(
        case.topic,
        [{"key": key, "value": value, "partition": 0, "timestamp": at + number} for number, (key, value) in enumerate(records)],
    )
    # Dead are a's old record, both of c, that without a key, and b's last one.
    dead = [0, 3, 4, 5, 6]
    case.produce(case.queue, [case.letter(number, records[number][1], key=records[number][0]) for number in dead])
    dry = case.answer({"action": "replay"}, EDIT)
    assert [one["verdict"] for one in dry["letters"]] == ["superseded", "passes", "passes", "passes", "passes"]
    # What a replay has written does not count either.
    assert case.answer({**REPLAY, "selection": {"offsets": "1"}}, EDIT)["replayed"] == 1
    assert case.answer({**REPLAY, "limit": 2}, EDIT)["verdicts"] == {"superseded": 1, "passes": 1}
    assert case.answer(REPLAY, EDIT)["verdicts"] == {"superseded": 1, "passes": 2}
    assert [one.value() for one in case.committed(case.topic, 11)[7:]] == [b"1", b"2", b"n", b"last"]
    assert case.answer({**REPLAY, "include_superseded": True}, EDIT)["replayed"] == 1


def test_dead_letters_without_context_need_a_target_and_missing_partitions_are_named(case: QueueCase) -> None:
    case.produce(case.queue, [{"key": b"k", "value": b"{}"}])
    with pytest.raises(ConnectError, match=r"at offset 0 of .* does not name its original topic; name one with --to"):
        case.answer(REPLAY)
    assert case.answer({**REPLAY, "to": case.topic})["replayed"] == 1
    case.produce(case.queue, [case.letter(1, b"{}", origin_partition=7)])
    with pytest.raises(ConnectError, match=r"has no partition 7, which a dead letter came from; it has 2\. If it was recreated"):
        case.answer({**REPLAY, "include_superseded": True})
    with pytest.raises(NotFoundError, match="There is no topic"):
        case.answer({**REPLAY, "to": f"{case.topic}-absent"})


def test_a_connector_without_a_queue_is_told_so(case: QueueCase) -> None:
    with pytest.raises(IllegalStateError, match=r"has no dead letter queue: set errors\.deadletterqueue"):
        case.answer({"action": "list"}, {"errors.deadletterqueue.topic.name": ""})


def test_a_second_replay_ends_the_first(case: QueueCase, broker: EmbeddedBroker) -> None:
    clients, group = {"bootstrap.servers": broker.bootstrap}, replay_group(case.connector)
    first, second = ReplayProducer(clients, clients, group), ReplayProducer(clients, clients, group)
    first.begin()
    second.begin()
    record = RecordToWrite(case.topic, 0, None, b"k", b"v", [])
    with pytest.raises(ConnectError, match="another replay of these dead letters has started meanwhile"):
        first.write([record], case.queue, {0: CommittedPosition(1, "")})
    assert case.committed(case.topic) == []
    first.close()
    second.close()


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("point", "transforms", "value"),
    [
        ("dead_letters.written", MASK, b'{"amount":"0"}'),
        pytest.param("dead_letters.replayed", None, BAD, marks=pytest.mark.long),
    ],
)
def test_a_replay_that_is_killed_continues_without_loss_and_duplicates(
    case: QueueCase, point: str, transforms: dict[str, str] | None, value: bytes
) -> None:
    # Promise 5: the records and the position are one transaction.
    case.produce(case.queue, [case.letter(number, BAD) for number in range(10)])

    def run(crash_at: str | None) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key != "SLUICE_CRASH_AT"}
        if crash_at is not None:
            environment["SLUICE_CRASH_AT"] = crash_at
        request = json.dumps({"transforms": transforms})
        words = [sys.executable, "-c", _PROGRAM, request, case.bootstrap, case.connector, case.topic, case.queue]
        return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)

    killed = run(f"{point}:2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    expected_left = 6 if point == "dead_letters.written" else 2
    finished = run(None)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["replayed"] == expected_left
    found = [(one.key(), one.value()) for one in case.committed(case.topic, 10)]
    assert found == [(f"k{number}".encode(), value) for number in range(10)]


def test_dead_letters_of_other_connectors_and_deleted_records_are_no_gaps(case: QueueCase, broker: EmbeddedBroker) -> None:
    owners = [case.connector, "other"] * 4
    case.produce(case.queue, [case.letter(number, b'{"amount": "1"}', connector=owner) for number, owner in enumerate(owners)])
    clients = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(clients)  # its requests end with it
    for future in admin.delete_records([Position(case.queue, 0, 2)]).values():
        future.result(WAIT_S)
    # As if retention had deleted them after the offsets were looked up.
    (records,) = read_stored(clients, TopicPartition(case.queue, 0), 0, 8)
    assert [record.offset for record in records] == list(range(2, 8))
    assert case.answer({**REPLAY, "include_superseded": True})["replayed"] == 3
    answer = case.answer({"action": "list"})
    assert (answer["records"], answer["left"], answer["letters"]) == (6, 0, [])

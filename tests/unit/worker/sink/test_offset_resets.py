"""What happens when a topic no longer has the next offset of a sink task: retention overtook it, or the topic was recreated."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, KafkaError

from connect import ConnectError
from tests.unit.worker.kafka.fake_clients import FakeMessage, messages_of
from tests.unit.worker.sink.sink_rig import CONSUMER, P0, Rig
from worker.kafka.sink_consumer import MissingOffsetError

RESET = "auto.offset.reset"


def missing(offset: int) -> FakeMessage:
    """How the client reports that it has no offset to continue from."""
    return FakeMessage(*P0, offset, failure=KafkaError(KafkaError._AUTO_OFFSET_RESET, "offset out of range"))


@pytest.mark.parametrize("configured", ["earliest", "latest"])
def test_only_a_task_that_forbids_it_has_a_consumer_that_never_resets_itself(
    monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    java = {**CONSUMER, RESET: configured}
    assert Rig(monkeypatch, java=java).client.java[RESET] == configured
    assert Rig(monkeypatch, java=java, allows_resets=False).client.java[RESET] == "error"


@pytest.mark.parametrize("configured", ["none", "erliest"])
def test_a_setting_that_names_no_position_reaches_the_client(monkeypatch: pytest.MonkeyPatch, configured: str) -> None:
    rig = Rig(monkeypatch, java={**CONSUMER, RESET: configured}, allows_resets=False)
    assert rig.client.java[RESET] == configured
    rig.assign(P0)
    assert rig.client.assigned_at == {P0: OFFSET_STORED}


@pytest.mark.parametrize(("configured", "first", "logical"), [("earliest", 5, OFFSET_BEGINNING), ("latest", 100, OFFSET_END)])
def test_a_partition_without_offset_starts_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, configured: str, first: int, logical: int
) -> None:
    java = {**CONSUMER, RESET: configured}
    rig = Rig(monkeypatch, java=java, allows_resets=False)
    rig.client.watermarks = 5, 100
    rig.assign(P0)
    assert rig.client.assigned_at == {P0: first}
    slow = Rig(monkeypatch, java=java, allows_resets=False)
    slow.client.knows_watermarks = False
    slow.assign(P0)
    assert slow.client.assigned_at == {P0: logical}
    other = Rig(monkeypatch, java=java)
    other.client.knows_watermarks = False
    other.assign(P0)
    assert other.client.assigned_at == {P0: OFFSET_STORED}


def test_the_task_says_why_an_offset_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, allows_resets=False)
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [0, 1]))
    rig.task.explanation = ConnectError("retention was faster")
    with pytest.raises(ConnectError, match="retention was faster"):
        rig.iterate(missing(2))
    assert rig.events[-1] == ("missing", 0, 2)


def test_a_missing_offset_without_explanation_fails_the_task_in_the_clients_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, allows_resets=False)
    rig.assign(P0)
    with pytest.raises(MissingOffsetError, match=r"reading t-0: offset out of range \(_AUTO_OFFSET_RESET\)"):
        rig.iterate(missing(2))


def test_records_before_a_missing_offset_are_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, allows_resets=False)
    rig.assign(P0)
    rig.iterate(*messages_of(P0, [0, 1]), missing(2))
    assert rig.events[-1] == ("put", "0-0", "0-1")
    with pytest.raises(MissingOffsetError):
        rig.iterate()


def test_an_error_of_open_comes_before_that_of_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, allows_resets=False)
    rig.callbacks._error = ConnectError("the table cannot be read")
    with pytest.raises(ConnectError, match="the table cannot be read"):
        rig.iterate(missing(-1001))

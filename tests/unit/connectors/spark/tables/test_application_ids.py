"""Identifiers of partitions: only of topics whose identity is known."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.application_ids import OtherTopicError, StoredOffsets, ids_of

TP = TopicPartition("orders", 3)
KNOWN = TopicIdentity("cluster", "first")


def stored(identity: TopicIdentity = KNOWN) -> StoredOffsets:
    return StoredOffsets({ids_of([TP], "c", lambda topic: identity)[TP]: 7}, "c")


def test_an_end_is_that_of_the_same_topic() -> None:
    assert stored().ends(lambda topic: KNOWN, "t") == {TP: 7}
    assert stored().ends(lambda topic: None, "t") == {}
    with pytest.raises(OtherTopicError, match="a topic that was recreated"):
        stored().ends(lambda topic: TopicIdentity("cluster", "second"), "t")


@pytest.mark.parametrize("unknown", [TopicIdentity("cluster", "-"), TopicIdentity("-", "first")])
def test_a_topic_of_unknown_identity_is_neither_continued_nor_committed(unknown: TopicIdentity) -> None:
    for call in (lambda: stored().ends(lambda topic: unknown, "t"), lambda: ids_of([TP], "c", lambda topic: unknown)):
        with pytest.raises(ConnectError, match=r"name no (cluster )?ID of topic orders.*nothing of it is committed"):
            call()


def test_a_topic_that_does_not_exist_is_not_committed_now() -> None:
    with pytest.raises(RetriableError, match="have no topic orders"):
        ids_of([TP], "c", lambda topic: None)

"""Which partitions tables contain completely."""

from __future__ import annotations

from collections.abc import Mapping

from connect.record import TopicPartition
from sluice.verify.positions import find_behind

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TABLES = {"first": {"a"}, "second": {"a", "b"}}


def behind(written: Mapping[str, Mapping[TopicPartition, int]], ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return find_behind(ends, TABLES, lambda table: written.get(table, {}))


def test_table_that_contains_all_ends_or_more_is_not_behind() -> None:
    written = {"first": {A: 5, B: 9}, "second": {A: 6, B: 3, C: 1}}
    assert behind(written, {A: 5, B: 3, C: 1}) == {}


def test_topic_of_several_tables_counts_as_the_table_that_is_farthest_behind() -> None:
    assert behind({"first": {A: 4}, "second": {A: 2}}, {A: 5}) == {A: 2}


def test_table_that_does_not_tell_its_offsets_is_behind() -> None:
    assert behind({"first": {A: 5}}, {A: 5, C: 7}) == {A: 0, C: 0}


def test_topics_of_no_table_do_not_count() -> None:
    assert behind({}, {TopicPartition("other", 0): 5}) == {}

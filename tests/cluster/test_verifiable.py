"""The check of verifiable connectors reports missing, lost, duplicated, disordered, and unexpected numbers."""

from __future__ import annotations

from typing import Any

from tests.cluster.topics import Stored, latest, payload
from tests.cluster.verifiable import parse_number, printed_numbers, sink_report, source_report

ALL = [(0, n) for n in range(4)] + [(1, n) for n in range(3)]


def test_complete_topic_has_no_findings() -> None:
    report = source_report(ALL, ALL)
    assert report.counts == {0: 4, 1: 3}
    assert (report.missing, report.lost, report.duplicated, report.disordered) == ((), (), {}, ())


def test_missing_and_lost_numbers_are_distinguished() -> None:
    present = [one for one in ALL if one not in ((0, 1), (0, 3))]
    report = source_report(present, [(0, 1), (0, 3)])
    assert report.missing == ((0, 1),)  # 3 was the highest: only its acknowledgment shows that it existed
    assert report.lost == ((0, 1), (0, 3))


def test_duplicates_are_counted_and_do_not_count_as_disorder() -> None:
    report = source_report([*ALL, (0, 2), (0, 3), (0, 3)], ())
    assert report.duplicated == {(0, 2): 1, (0, 3): 2}
    assert report.disordered == ()


def test_number_first_seen_after_a_higher_one_is_out_of_order() -> None:
    assert source_report([(0, 0), (0, 2), (0, 1), (1, 0)], ()).disordered == ((0, 1),)


def test_alternating_runs_are_distinguished_from_consecutive_runs() -> None:
    consecutive = [(0, n) for n in (0, 1, 2, 3, 2, 3, 4)]
    assert source_report(consecutive, ()).alternating == ()
    alternating = [(0, n) for n in (0, 1, 2, 3, 2, 4, 3, 5)]
    assert source_report(alternating, ()).alternating == ((0, 4), (0, 5))
    assert source_report([(0, 0), (1, 0), (1, 1), (0, 1)], ()).alternating == ()


def test_sink_is_compared_with_the_topic() -> None:
    report = sink_report(ALL, [*ALL[1:], (1, 1), (7, 7)], ALL[2:])
    assert report.missing == ((0, 0),)
    assert report.unflushed == ((0, 0), (0, 1))
    assert report.unexpected == ((7, 7),)
    assert report.duplicated == {(1, 1): 1}


def test_printed_lines_are_selected_by_connector_and_mark() -> None:
    lines: list[dict[str, Any]] = [
        {"name": "src", "task": 0, "seqno": 1},
        {"name": "src", "task": 0, "seqno": 1, "committed": True},
        {"name": "snk", "task": 0, "sinkTask": 0, "seqno": 2},
        {"name": "snk", "task": 0, "sinkTask": 0, "seqno": 1, "flushed": True},
        {"level": "INFO"},
    ]
    assert printed_numbers(lines, "src") == [(0, 1)]
    assert printed_numbers(lines, "src", "committed") == [(0, 1)]
    assert printed_numbers(lines, "snk") == [(0, 2)]
    assert printed_numbers(lines, "snk", "flushed") == [(0, 1)]


def stored(key: bytes, value: bytes | None) -> Stored:
    return Stored("t", 0, 0, 0, key, value)


def test_numbers_are_parsed_with_and_without_schemas_and_complete_record_data() -> None:
    schemas = stored(b'{"schema":{"type":"int32"},"payload":3}', b'{"schema":{"type":"int64"},"payload":9}')
    assert parse_number(schemas) == (3, 9)
    assert parse_number(stored(b"3", b"9")) == (3, 9)
    assert parse_number(stored(b"3", b'{"name":"src","task":3,"seqno":9}')) == (3, 9)
    assert payload(None) is None


def test_latest_value_of_a_key_wins_and_a_tombstone_removes_it() -> None:
    records = [stored(b"a", b"1"), stored(b"b", b"2"), stored(b"a", b"3"), stored(b"b", None)]
    assert latest(records) == {"a": 3}

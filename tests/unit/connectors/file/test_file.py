"""File connectors: no line is lost or repeated."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect import RawBatch, Schema, SinkRecord
from connect.connector import ExactlyOnceSupport
from connect.converters.json.converter import JsonConverter
from connect.converters.string import StringConverter
from connect.errors import ConfigError, ConnectError
from connect.testing import SinkHarness, SourceHarness, check_sink_connector, check_source_connector
from connectors.file import FileStreamSink, FileStreamSinkTask, FileStreamSource, FileStreamSourceTask
from connectors.file.lines import LineSplitter


def source(path: Path, offsets: Any = None, **config: str) -> SourceHarness:
    return SourceHarness(FileStreamSourceTask(), {"file": str(path), "topic": "t", **config}, offsets)


def lines_as_java_cuts_them(data: bytes) -> tuple[list[str], list[int]]:
    lines, positions, start, at = [], [], 0, 0
    while at < len(data):
        if data[at : at + 1] == b"\r" and at + 1 == len(data):
            break
        if data[at : at + 1] in (b"\r", b"\n"):
            end = at + (2 if data[at : at + 2] == b"\r\n" else 1)
            lines.append(data[start:at].decode())
            positions.append(end)
            start = at = end
        else:
            at += 1
    return lines, positions


@given(st.lists(st.sampled_from(["a", "é", "😀", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", ""]), max_size=30), st.data())
def test_lines_and_positions_do_not_depend_on_the_blocks(parts: list[str], data: st.DataObject) -> None:
    raw = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    splitter = LineSplitter()
    lines: list[str] = []
    positions: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found = splitter.feed(raw[start:stop])
        lines += found[0]
        positions += found[1]
    assert (lines, positions) == lines_as_java_cuts_them(raw)


def test_lines_become_records_with_the_position_after_them(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes("föö\r\nbar\n\nlast".encode())
    with source(file) as harness:
        records = harness.poll_records(3)
        assert [(r.value, r.source_offset) for r in records] == [
            ("föö", {"position": 7}),
            ("bar", {"position": 11}),
            ("", {"position": 12}),
        ]
        assert records[0].source_partition == {"filename": str(file)}
        assert (records[0].key, records[0].value_schema, records[0].topic) == (None, Schema.STRING, "t")
        with file.open("ab") as more:
            more.write(b" line\n")
        assert [r.value for r in harness.poll_records(1)] == ["last line"]


def test_a_poll_returns_at_most_batch_size_records(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("x\n" * 25)
    with source(file, **{"batch.size": "10"}) as harness:
        assert [len(harness.poll()) for _ in range(3)] == [10, 10, 5]


def test_a_restart_continues_after_the_last_stored_line(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("ä1\nä2\nä3\n")
    with source(file, **{"batch.size": "2"}) as harness:
        harness.poll_records(2)
        harness.commit()
    with source(file, harness.offsets) as again:
        assert [r.value for r in again.poll_records(1)] == ["ä3"]


def test_the_task_waits_for_a_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "in"
    with source(file) as harness:
        threading.Timer(0.2, file.write_text, ["x\n"]).start()
        assert [r.value for r in harness.poll_records(1)] == ["x"]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("long line one\nlong line two\n")
    with source(file) as harness:
        harness.poll_records(2)
        harness.commit()
        file.write_text("new\n")
        assert [r.value for r in harness.poll_records(1)] == ["new"]
    with source(file, harness.offsets) as again:
        assert [r.value for r in again.poll_records(1)] == ["new"]


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("one\n")
    with source(file) as harness:
        harness.poll_records(1)
        file.rename(tmp_path / "in.1")
        with (tmp_path / "in.1").open("a") as old:
            old.write("two\n")
        file.write_text("three\n")
        assert [r.value for r in harness.poll_records(2)] == ["two", "three"]


def test_standard_input_has_no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with SourceHarness(FileStreamSourceTask(), {"topic": "t"}) as harness:
            os.write(writer, b"a\nb")
            [record] = harness.poll_records(1)
            os.close(writer)
            assert (record.value, record.source_partition, record.source_offset) == ("a", {"filename": None}, {"position": None})


def test_a_stop_ends_a_waiting_poll_immediately(tmp_path: Path) -> None:
    with source(tmp_path / "none") as harness:
        harness.task.stop()
        assert harness.poll() == []


def test_the_error_for_a_directory_suggests_a_fix(tmp_path: Path) -> None:
    with source(tmp_path) as harness, pytest.raises(ConnectError) as raised:
        harness.poll()
    assert raised.value.message == (
        f"Cannot read {tmp_path}: it is a directory; set file to a file in it, and create a connector for each file"
    )


def test_a_file_replaced_by_a_directory_raises_an_error(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("a\n")
    with source(file) as harness:
        harness.poll()
        file.unlink()
        file.mkdir()
        with pytest.raises(ConnectError, match=f"Cannot read {file}: it is a directory"):
            harness.poll()


def test_an_invalid_stored_position_fails_the_task(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x\n")
    with source(tmp_path / "in") as harness:
        harness.offsets.store({"filename": str(tmp_path / "in")}, {"position": "1"})
        with pytest.raises(ConnectError, match="incorrect type"):
            harness.poll()


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({"position": 2}, None),
        (None, None),
        ({}, "Offset objects should either be null or contain the key 'position'"),
        ({"position": None}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"position": "3"}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"position": 1.5}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"position": -1}, "The value for the 'position' key in the offset should be a non-negative value"),
    ],
)
def test_offsets_are_checked_with_apaches_messages(offset: dict[str, Any] | None, message: str | None) -> None:
    connector = FileStreamSource()
    config = {"file": "f", "topic": "t"}
    if message is None:
        assert connector.alter_offsets(config, {(("filename", "f"),): offset})
        return
    with pytest.raises(ConnectError) as caught:
        connector.alter_offsets(config, {(("filename", "f"),): offset})
    assert caught.value.message == message


def test_offsets_need_a_file_and_a_filename() -> None:
    with pytest.raises(ConnectError, match="stdin is used"):
        FileStreamSource().alter_offsets({"topic": "t"}, {})
    with pytest.raises(ConnectError, match="should contain the key 'filename'"):
        FileStreamSource().alter_offsets({"file": "f", "topic": "t"}, {(("x", "f"),): {"position": 1}})


def test_exactly_once_needs_a_file() -> None:
    assert FileStreamSource().exactly_once_support({"file": "f", "topic": "t"}) is ExactlyOnceSupport.SUPPORTED
    assert FileStreamSource().exactly_once_support({"topic": "t"}) is ExactlyOnceSupport.UNSUPPORTED


def test_a_topic_is_required(tmp_path: Path) -> None:
    for topic in ({}, {"topic": ""}):
        with pytest.raises(ConfigError):
            FileStreamSource().start({"file": "f", **topic})


def test_the_source_passes_the_conformance_checks(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("".join(f"zeile ü{i}\n" for i in range(50)))
    check_source_connector(FileStreamSource, {"file": str(file), "topic": "t", "batch.size": "7"}, records=50)


def test_the_sink_passes_the_conformance_checks(tmp_path: Path) -> None:
    records = [SinkRecord(f"t{i % 2}", 0, None, None, Schema.STRING, f"v{i}", i) for i in range(10)]
    check_sink_connector(FileStreamSink, {"file": str(tmp_path / "out")}, records)


def test_values_are_appended_as_lines(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("before\n")
    with SinkHarness(FileStreamSinkTask(), {"file": str(file)}) as harness:
        harness.put_values("t", ["a", "é"], schema=Schema.STRING)
        harness.put_values("t", [{"a": 1}, None, [1.5]])
        assert harness.commit() == harness.delivered
    assert file.read_text() == "before\na\né\n{a=1}\nnull\n[1.5]\n"


def test_raw_batches_give_the_same_lines_as_records(tmp_path: Path) -> None:
    values = [b"a", None, "é".encode(), b"\xff\xed\xa0\x80", b""]
    converter = StringConverter()
    paths = [tmp_path / "raw", tmp_path / "decoded"]
    for path in paths:
        with SinkHarness(FileStreamSinkTask(), {"file": str(path)}, value_converter=converter, raw_allowed=True) as harness:
            assert harness.task.wants_raw()
            if path.name == "raw":
                harness.put_raw([RawBatch("t", 0, list(range(5)), [None] * 5, values, [0] * 5), RawBatch("t", 1, [], [], [], [])])
            else:
                decoded = [converter.to_connect_data("t", v) for v in values]
                harness.put([SinkRecord("t", 0, None, None, d.schema, d.value, i) for i, d in enumerate(decoded)])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_raw_batches_are_requested_only_for_utf_8_text(tmp_path: Path) -> None:
    latin = StringConverter()
    latin.configure({"converter.encoding": "ISO-8859-1"}, False)
    for converter, allowed in ((latin, True), (JsonConverter(), True), (StringConverter(), False)):
        with SinkHarness(
            FileStreamSinkTask(), {"file": str(tmp_path / "o")}, value_converter=converter, raw_allowed=allowed
        ) as harness:
            assert not harness.task.wants_raw()


def test_a_file_that_cannot_be_written_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="Couldn't find or create file"):
        SinkHarness(FileStreamSinkTask(), {"file": str(tmp_path / "no" / "out")}).start()

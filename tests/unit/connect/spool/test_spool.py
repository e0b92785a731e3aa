"""The format of spools: what a writer adds, a reader reads to the byte, in any slices; both can stop at any time."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect import crash_points
from connect.errors import ConfigError, ConnectError, DataError, RetriableError
from connect.spool import segments
from connect.spool.index import NAME, segment_path
from connect.spool.positions import CONFIRMED, START, SpoolPosition, write_mark
from connect.spool.reader import SpoolReader, require_reachable
from connect.spool.schemas import SchemaTexts
from connect.spool.segments import restore_bytes
from connect.spool.status import WriterState, WriterStatus, read_status, write_status
from connect.spool.writer import SpoolWriter
from tests.unit.connect.spool.spools import NOW_MS, Run, add, message, numbers, opened, values

POINTS = ("spool.written", "spool.renamed", "spool.indexed", "spool.confirmed")
LATEST = 9

MESSAGES = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.builds(message, st.integers(0, 99), st.sampled_from(["a", "b", 'c,"payload":'])),
    st.sampled_from([b'{"schema":', b'{"schema":null,"payload":1}', b'{"schema":{"a":"\xed\xa0\x80"},"payload":1}', b"{}", b"}"]),
)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


PREFIXES = st.none() | st.sampled_from([message(0, schema).partition(b"0}")[0] for schema in ("a", "b")])
RUNS = st.builds(
    lambda topic, pairs, *parts: Run(topic, [k for k, _ in pairs], [v for _, v in pairs], None, None, None, *parts),
    st.sampled_from(["t", "u"]),
    st.lists(st.tuples(MESSAGES, MESSAGES), min_size=1, max_size=6),
    PREFIXES,
    PREFIXES,
    st.none() | st.tuples(st.binary(max_size=3), st.binary(max_size=3)),
)


@given(st.lists(RUNS, min_size=1))
def test_keys_and_values_are_restored_to_the_byte(runs: list[Run]) -> None:
    def whole(prefix: bytes | None, payload: bytes | None) -> bytes | None:
        return payload if prefix is None or payload is None else prefix + payload + b"}"

    records = []
    for run in (run if run.value_prefix else run._replace(value_frame=None) for run in runs):
        before, after = run.value_frame or (b"", b"")
        for key, value in zip(run.keys, run.values, strict=True):
            framed = None if value is None else before + value + after
            records.append((run.topic, whole(run.key_prefix, key), whole(run.value_prefix, framed)))
    schemas = SchemaTexts({})
    built = segments.build_segment(
        [(run if run.value_prefix else run._replace(value_frame=None), NOW_MS) for run in runs], schemas
    )
    keys, found = (restore_bytes(built, column, schemas.unstored).to_pylist() for column in ("key", "value"))
    assert list(zip(built["topic"].to_pylist(), keys, found, strict=True)) == records


def test_rows_have_all_columns_of_their_records(spool: Path) -> None:
    headers = [None, [("h", b"1"), ("h", None)], []]
    run = Run("u", [b"k", None, None], [b"v", None, b""], [1, -1, 2], [5, 0, 7], headers)
    writer = SpoolWriter(spool, "c")
    writer.add_segment(0, [(numbers(1, 1), NOW_MS), (run, NOW_MS + 1)], {})
    rows = opened(spool).slices(START, SpoolPosition(1, 0))[0].read(spool).to_pydict()
    assert rows["topic"] == ["t", "u", "u", "u"]
    assert rows["partition"] == [None, 1, None, 2]
    assert rows["timestamp"] == [NOW_MS, 5, NOW_MS + 1, 7]
    assert rows["headers"] == [None, None, [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []]
    writer.close()


def test_headers_that_records_share_are_stored_once() -> None:
    shared: list[tuple[str, bytes | None]] = [("h", b"1")]
    runs = [
        Run("t", [None] * 3, [b"v"] * 3, headers=[shared, None, shared]),
        numbers(1, 1),
        Run("t", [None], [b"v"], headers=[[]]),
    ]
    built = segments.build_segment([(run, NOW_MS) for run in runs], SchemaTexts({}))
    named = [{"key": "h", "value": b"1"}]
    assert built["headers"].chunk(0).dictionary.to_pylist() == [named, []]
    assert segments.restore_headers(built.slice(1)).to_pylist() == [None, named, None, []]


def test_reader_reads_slices_of_any_number_of_rows_in_order(spool: Path) -> None:
    writer, reader = SpoolWriter(spool, "c"), SpoolReader(spool)
    for first, count in ((0, 5), (5, 1), (6, 4)):
        add(writer, first, count)
    writer.add_segment(0, [], {"p0": "20"})
    reader.refresh()
    for step in (1, 2, 3, 5, 10, None):
        position, found = START, []
        while position != reader.end:
            end = reader.advance(position, step)
            found += values(reader, position, end)
            position = end
        assert found == [message(number) for number in range(10)], step
    writer.close()


def test_reader_finds_segments_that_were_added_since(spool: Path) -> None:
    writer = SpoolWriter(spool, "c")
    add(writer, 0, 2)
    reader = opened(spool)
    position = reader.end
    add(writer, 2, 2)
    assert reader.refresh()
    assert values(reader, position) == [message(2), message(3)]
    writer.close()


def test_reopened_spool_continues_with_its_offsets_and_schemas(spool: Path) -> None:
    writer = SpoolWriter(spool, "c")
    add(writer, 0, 2)
    writer.add_segment(1, [(Run("t", [None], [message(7, "other")]), NOW_MS)], {"p1": "7"})
    writer.close()
    again = SpoolWriter(spool, "c")
    add(again, 2, 1)
    assert again.offsets() == {"p0": "2", "p1": "7"}
    assert values(opened(spool)) == [message(0), message(1), message(7, "other"), message(2)]
    again.close()


def test_offsets_of_committed_segments_are_returned_once_by_task_and_their_files_removed(spool: Path) -> None:
    writer, reader = SpoolWriter(spool, "c"), SpoolReader(spool)
    add(writer, 0, 2, task=0)
    add(writer, 2, 2, task=1)
    add(writer, 4, 2, task=0)
    writer.add_segment(0, [], {"p0": "99"})
    reader.refresh()
    reader.confirm(SpoolPosition(2, 1))
    assert writer.take_confirmed() == {0: {"p0": "1"}, 1: {"p1": "3"}}
    writer.remove_confirmed()
    assert sorted(path.name for path in spool.glob("segment-*")) == [segment_path(spool, 2).name]
    assert values(reader, SpoolPosition(2, 1)) == [message(5)]
    assert writer.take_confirmed() == {}
    reader.confirm(SpoolPosition(3, 0))
    assert writer.take_confirmed() == {0: {"p0": "99"}}, "offsets without records follow the segments before them"
    writer.remove_confirmed()
    assert writer.unplanned_bytes == 0
    writer.close()


def test_source_is_told_again_what_was_committed_before_a_restart(spool: Path) -> None:
    writer, reader = SpoolWriter(spool, "c"), SpoolReader(spool)
    add(writer, 0, 2)
    writer.close()
    reader.refresh()
    reader.confirm(reader.end)
    again = SpoolWriter(spool, "c")
    assert again.take_confirmed() == {0: {"p0": "1"}}
    again.close()


def test_index_forgets_removed_segments_but_neither_offsets_nor_schemas(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect.spool.writer._SHORTENED_AFTER", 2)
    writer, reader = SpoolWriter(spool, "c"), opened(spool)
    for number in range(6):
        add(writer, number, 1, task=number % 2)
    reader.refresh()
    lines = len((spool / NAME).read_bytes().splitlines())
    reader.confirm(SpoolPosition(4, 0))
    writer.take_confirmed()
    writer.remove_confirmed()
    assert len((spool / NAME).read_bytes().splitlines()) == lines - 4
    assert reader.refresh()
    assert (reader.end, values(reader, SpoolPosition(4, 0))) == (SpoolPosition(6, 0), [message(4), message(5)])
    assert reader.topics() == {"t": [0]}
    writer.close()
    again = SpoolWriter(spool, "c")
    assert again.offsets() == {"p0": "4", "p1": "5"}
    assert add(again, 6, 1).first_row == 6
    again.close()


def test_reader_finds_an_index_that_was_shortened_even_if_its_inode_is_the_same(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect.spool.writer._SHORTENED_AFTER", 2)
    monkeypatch.setattr("connect.spool.writer.replace_file", lambda path, data: path.write_bytes(data))
    writer, reader, slow = SpoolWriter(spool, "c"), SpoolReader(spool), SpoolReader(spool)
    for _ in range(3):
        for _ in range(2):
            writer.add_segment(0, [], {"p0": "0"})  # moves neither segment nor row
        assert slow.refresh()
        reader.refresh()
        reader.confirm(reader.end)
        writer.take_confirmed()
        writer.remove_confirmed()
    for number in range(10):
        add(writer, number, 1)
    assert slow.refresh()
    assert [entry.segment for entry in slow.entries] == list(range(10))
    writer.close()


def test_topic_keeps_its_schema_when_its_last_removed_segment_has_tombstones_only(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connect.spool.writer._SHORTENED_AFTER", 2)
    writer, reader = SpoolWriter(spool, "c"), opened(spool)
    add(writer, 0, 1)
    writer.add_segment(0, [(Run("t", [b"key"], [None], None, None, None), NOW_MS)], {"p0": "1"})
    reader.refresh()
    reader.confirm(reader.end)
    writer.take_confirmed()
    writer.remove_confirmed()
    assert reader.refresh()
    assert (reader.entries, reader.topics()) == ([], {"t": [0]})
    writer.close()


def test_reader_sees_a_line_only_after_it_is_durable(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = SpoolWriter(spool, "c"), opened(spool)
    sync, seen = os.fsync, []

    def spy(descriptor: int) -> None:
        reader.refresh()
        seen.append(reader.end)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    add(writer, 0, 3)
    monkeypatch.undo()
    assert set(seen) == {START}
    reader.refresh()
    assert reader.end == SpoolPosition(1, 0)
    writer.close()


@pytest.mark.parametrize("torn", [0, 1, 20])
def test_line_that_lost_only_its_end_in_a_crash_of_the_host_is_ended(spool: Path, torn: int) -> None:
    reader = filled(spool)
    reader.refresh()
    reader.confirm(reader.end if not torn else SpoolPosition(1, 0))
    content = (spool / NAME).read_bytes()
    (spool / NAME).write_bytes(content[: -1 - torn])
    writer = SpoolWriter(spool, "c")
    assert (spool / NAME).read_bytes() == (content if not torn else content[: content[:-1].rfind(b"\n") + 1])
    assert writer.offsets() == {"p0": "5" if not torn else "2"}
    assert add(writer, 6, 1).first_row == (3 if torn else 6)
    writer.close()
    reader.close()


# --- one writer, one reader


def test_second_writer_and_second_reader_are_refused_by_process_and_host(spool: Path) -> None:
    writer, reader = SpoolWriter(spool, "c"), opened(spool)
    holder = f"process {os.getpid()} on host {os.uname().nodename}"
    with pytest.raises(ConfigError, match=f"another writer .{holder}.. Stop that one"):
        SpoolWriter(spool, "c")
    with pytest.raises(ConfigError, match=f"another reader .{holder}.. Stop that query"):
        SpoolReader(spool).open()
    writer.close()
    reader.close()
    SpoolWriter(spool, "c").close()


def test_directory_that_cannot_be_created_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for opened_by in (lambda path: SpoolWriter(path, "c"), lambda path: SpoolReader(path).open()):
        with pytest.raises(ConfigError, match=r"file/spool for configuration spool.location: the directory cannot be created"):
            opened_by(tmp_path / "file" / "spool")


def test_spool_of_another_connector_is_refused(spool: Path) -> None:
    SpoolWriter(spool, "orders").close()
    with pytest.raises(ConfigError, match="belongs to connector orders, not customers"):
        SpoolWriter(spool, "customers")


# --- damage


def filled(spool: Path) -> SpoolReader:
    writer = SpoolWriter(spool, "c")
    add(writer, 0, 3)
    add(writer, 3, 3)
    writer.close()
    return opened(spool)


def test_copy_is_refused_but_a_moved_spool_is_not(spool: Path) -> None:
    filled(spool).close()
    copy, moved = spool.with_name("copy"), spool.with_name("moved")
    shutil.copytree(spool, copy)
    with pytest.raises(DataError, match=f"{copy} is a copy .of {spool}"):
        SpoolWriter(copy, "c")
    with pytest.raises(DataError, match="is a copy"):
        SpoolReader(copy).refresh()
    spool.rename(moved)
    SpoolWriter(moved, "c").close()


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_damaged_line_of_the_index_is_refused_by_its_number(spool: Path, at: float) -> None:
    filled(spool).close()
    lines = (spool / NAME).read_bytes().splitlines(keepends=True)
    second = bytearray(lines[1])
    second[int(len(second) * at)] ^= 1
    (spool / NAME).write_bytes(lines[0] + second + lines[2])
    with pytest.raises(DataError, match=f"{NAME}:2: the line is damaged"):
        SpoolReader(spool).refresh()
    with pytest.raises(DataError, match="is damaged"):
        SpoolWriter(spool, "c")


def test_missing_line_of_the_index_is_refused(spool: Path) -> None:
    filled(spool).close()
    lines = (spool / NAME).read_bytes().splitlines(keepends=True)
    (spool / NAME).write_bytes(lines[0] + lines[2])
    with pytest.raises(DataError, match="has segment 1 after segment 0"):
        SpoolReader(spool).refresh()


@pytest.mark.parametrize("keep", [-1, None])
def test_damaged_segment_is_refused_by_name(spool: Path, keep: int | None) -> None:
    reader = filled(spool)
    path = segment_path(spool, 1)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data[:keep])
    assert values(reader, START, SpoolPosition(1, 0)) == [message(0), message(1), message(2)]
    with pytest.raises(DataError, match=f"{path} is damaged"):
        values(reader)


def test_missing_segment_is_an_error_with_the_host(spool: Path) -> None:
    reader = filled(spool)
    segment_path(spool, 0).unlink()
    with pytest.raises(RetriableError, match=f"does not exist on host {os.uname().nodename}"):
        values(reader)


def test_spool_that_is_older_than_what_was_read_from_it_is_refused(spool: Path) -> None:
    reader = filled(spool)
    write_mark(spool, reader.id, CONFIRMED, SpoolPosition(5, 0))
    with pytest.raises(DataError, match="has committed segment 5, row 0, but the spool ends at segment 2, row 0"):
        SpoolWriter(spool, "c")


def test_mark_of_another_spool_and_a_damaged_mark_are_refused(spool: Path) -> None:
    reader = filled(spool)
    write_mark(spool, "other", CONFIRMED, SpoolPosition(1, 0))
    with pytest.raises(DataError, match="belongs to another spool"):
        reader.confirmed()
    (spool / "confirmed.json").write_bytes(b"{")
    with pytest.raises(DataError, match="cannot be read"):
        reader.confirmed()


@pytest.mark.parametrize(("position", "reason"), [(START, "committed up to"), (SpoolPosition(3, 0), "ends at segment 2, row 0")])
def test_query_that_does_not_match_the_spool_is_refused(spool: Path, position: SpoolPosition, reason: str) -> None:
    reader = filled(spool)
    reader.confirm(SpoolPosition(1, 0))
    reader.require_rows_from(SpoolPosition(1, 0), "the checkpoint")
    reader.require_rows_from(SpoolPosition(2, 0), "the checkpoint")
    with pytest.raises(DataError, match=f"^the checkpoint starts at .*{reason}"):
        reader.require_rows_from(position, "the checkpoint")


def test_full_disk_adds_nothing_and_the_writer_goes_on_when_there_is_space(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SpoolWriter(spool, "c")
    add(writer, 0, 2)
    before = sorted(path.name for path in spool.iterdir())

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(ConnectError, match=f"cannot write to the spool {spool}: No space left on device. Free space"):
            writer.add_segment(0, [(Run("t", [None], [message(1, "new")]), NOW_MS)], {"p0": "1"})
    assert sorted(path.name for path in spool.iterdir()) == before
    writer.add_segment(0, [(Run("t", [None], [message(2, "new")]), NOW_MS)], {"p0": "2"})
    writer.close()
    assert values(opened(spool)) == [message(0), message(1), message(2, "new")]


def test_status_is_what_the_writer_wrote_last(spool: Path) -> None:
    spool.mkdir()
    assert read_status(spool) is None
    for status in (WriterStatus(WriterState.RUNNING, 1), WriterStatus(WriterState.FAILED, 2, "no such table")):
        write_status(spool, status)
        assert read_status(spool) == status


# --- crashes


def write_all(spool: Path) -> None:
    """Adds segments up to LATEST, while a reader commits all but the last one."""
    writer, reader = SpoolWriter(spool, "c"), SpoolReader(spool)
    writer.take_confirmed()
    writer.remove_confirmed()
    while (first := int(writer.offsets().get("p0") or "-1") + 1) < LATEST:
        add(writer, first, 3)
        reader.refresh()
        reader.confirm(SpoolPosition(max(0, reader.end.segment - 1), 0))
        writer.take_confirmed()
        writer.remove_confirmed()
    writer.close()


def killed_at(point: str, time: int, spool: Path) -> int:
    """Runs :func:`write_all` in a process of its own with a crash point; returns how that ended."""
    child = os.fork()
    if not child:
        crash_points._name, crash_points._left = point, time
        write_all(spool)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("time", [1, 2])
def test_crash_at_any_point_loses_no_record_and_doubles_none(spool: Path, point: str, time: int) -> None:
    assert killed_at(point, time, spool) == -signal.SIGKILL
    write_all(spool)
    reader = opened(spool)
    confirmed = reader.confirmed()
    assert confirmed == SpoolPosition(2, 0)
    assert values(reader, confirmed) == [message(6), message(7), message(8)]
    assert [path.name for path in sorted(spool.glob("segment-*"))] == [segment_path(spool, 2).name]


def test_first_batch_is_remembered_until_the_spool_is_replaced(spool: Path) -> None:
    writer, reader = SpoolWriter(spool, "c"), opened(spool)
    assert reader.first_batch() is None
    reader.set_first_batch("a")
    reader.close()
    writer.close()
    again = SpoolReader(spool)
    again.refresh()
    assert again.first_batch() == "a"
    (spool / NAME).unlink()
    SpoolWriter(spool, "c").close()
    replaced = SpoolReader(spool)
    replaced.refresh()
    with pytest.raises(DataError, match=r"first-batch\.json belongs to another spool"):
        replaced.first_batch()


def test_spool_that_a_host_does_not_have_is_named_with_the_host(spool: Path, tmp_path: Path) -> None:
    writer = SpoolWriter(spool, "c")
    require_reachable(spool, writer.id)
    host = os.uname().nodename
    remedy = "spool.location must be a directory that they all mount"
    for missing in (tmp_path / "other", spool / NAME / "below a file"):
        with pytest.raises(RetriableError, match=f"the spool {missing} does not exist on host {host}.*{remedy}"):
            require_reachable(missing, writer.id)
    with pytest.raises(
        RetriableError, match=f"does not exist on host {host}, which has another one there .{writer.id}, not x.*{remedy}"
    ):
        require_reachable(spool, "x")
    (spool / NAME).unlink()
    (spool / NAME).mkdir()
    with pytest.raises(RetriableError, match=f"the spool {spool} cannot be read on host {host}: Is a directory.*{remedy}"):
        require_reachable(spool, writer.id)
    writer.close()

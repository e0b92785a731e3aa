"""Signals in a file: read once, and removed when the stored offset says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

_EXECUTE = '{"id": "2", "type": "execute-snapshot", "data": {"data-collections": ["public.t"]}}\n'
_ROWS = 10


@pytest.fixture
def file(source: Any, tmp_path: Path) -> Path:
    path = tmp_path / "signals.txt"
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        db.execute("insert into t select generate_series(1, %s)", [_ROWS])
    source.start(
        snapshot_mode="no_data",
        signal_enabled_channels="file",
        signal_file=str(path),
        signal_poll_interval_ms="10",
        poll_interval_ms="20",
        read_only="true",
    )
    source.until("streaming")
    return path


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def read_rows(source: Any) -> list[Any]:
    """The records of one snapshot, up to its last row."""
    found: list[Any] = source.read_before_failure(_ROWS)
    assert [record.value["op"] for record in found] == ["r"] * _ROWS
    return found


def await_empty(source: Any, file: Path) -> None:
    source.idle_until(lambda: not file.read_text(), "an empty file", flushes=True)


def test_signals_are_read_once_and_removed(source: Any, file: Path, caplog: Any) -> None:
    append(file, '{"id": "1", "type": "no-such-type", "data": {}}\nnot json\n' + _EXECUTE)
    source.store(read_rows(source)[-1])
    await_empty(source, file)
    assert caplog.text.count("signal 1 has the unknown type no-such-type") == 1
    assert "skipping a signal that cannot be read" in caplog.text
    assert source.quiet() == []


@pytest.mark.long
def test_a_signal_is_not_lost_when_the_worker_is_killed_before_offsets_are_stored(source: Any, file: Path) -> None:
    source.flush()
    append(file, _EXECUTE)
    read_rows(source)
    source.kill()
    source.start()
    source.store(read_rows(source)[-1])
    await_empty(source, file)


def test_a_signal_is_not_repeated_when_the_worker_is_killed_before_it_is_removed(
    source: Any, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)
    append(file, _EXECUTE)
    last = read_rows(source)[-1]
    source.offsets.stored = dict(last.source_offset)  # the task does not hear of it
    source.kill()
    assert file.read_text() == _EXECUTE
    source.start()
    append(file, '{"id": "3", "type": "log", "data": {"message": "the next one"}}\n')
    source.idle_until(lambda: "signal 3: the next one" in caplog.text, "the next signal")
    await_empty(source, file)
    assert source.quiet() == []


@pytest.mark.long
def test_the_same_signal_in_a_new_file_is_another_one(source: Any, file: Path) -> None:
    append(file, _EXECUTE)
    read_rows(source)
    file.write_text(_EXECUTE)
    source.store(read_rows(source)[-1])
    await_empty(source, file)

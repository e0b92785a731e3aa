"""Tasks and processes write whole lines to a shared standard output."""

from __future__ import annotations

import io
import os
import threading

import pytest

from connectors.verifiable import stdout
from connectors.verifiable.stdout import write_lines
from tests.support.waiting import WAIT_S


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes of each write to the standard output."""
    found: list[bytes] = []
    real = os.write

    def write(fd: int, data: memoryview) -> int:
        written = real(fd, data)
        found.append(bytes(data[:written]))
        return written

    monkeypatch.setattr(os, "write", write)
    return found


def _use(monkeypatch: pytest.MonkeyPatch, fd: int) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.FileIO(fd, "w", closefd=False)))


def test_a_batch_is_written_by_one_write(capfd: pytest.CaptureFixture[str], writes: list[bytes]) -> None:
    batch = b"".join(b"%d\n" % n for n in range(10_000))
    write_lines(batch)
    write_lines(b"")
    assert writes == [batch]
    assert capfd.readouterr().out.encode() == batch


def test_to_a_pipe_each_write_is_whole_lines_that_nobody_can_mix_with_others(
    monkeypatch: pytest.MonkeyPatch, writes: list[bytes]
) -> None:
    reading, writing = os.pipe()
    _use(monkeypatch, writing)
    batch = b"".join(b"x" * (n % 200) + b"\n" for n in range(400)) + b"y" * 5000 + b"\nend\n"
    write_lines(batch)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == batch
    assert all(piece.endswith(b"\n") for piece in writes)
    assert [len(piece) for piece in writes if len(piece) > stdout._ATOMIC_BYTES] == [5001]
    assert len(writes) < 20


def test_writes_wait_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _use(monkeypatch, writing)
    batch = b"x" * 99 + b"\n"
    done = threading.Thread(target=write_lines, args=(batch * 5000,), name="writer")
    done.start()
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read(500_000) == batch * 5000
    done.join(WAIT_S)
    assert not done.is_alive()
    os.close(writing)


def test_a_closed_standard_output_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(stdout, "_failure_logged", threading.Event())
    reading, writing = os.pipe()
    os.close(reading)
    _use(monkeypatch, writing)
    write_lines(b"one\n")
    write_lines(b"two\n")
    os.close(writing)
    assert [record.message[:53] for record in caplog.records] == ["Cannot write to the standard output; lines of verifia"]

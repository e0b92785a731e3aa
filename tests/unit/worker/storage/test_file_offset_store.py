"""The offset file: Apache's form, atomic, locked."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConfigError, ConnectError, DataError
from connect.java import serialized_map
from worker.storage.file_offset_store import OffsetFile
from worker.storage.offset_codec import decode_key, encode_key, encode_value, partition_id

# Written by Java 17: ObjectOutputStream.writeObject(new HashMap<byte[], byte[]>()) with one, and with no entry.
JAVA_ONE = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthresholdxp"
    b"?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00\x01ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp"
    b'\x00\x00\x00\r["c",{"f":0}]uq\x00~\x00\x02\x00\x00\x00\x07{"p":0}x'
)
JAVA_NONE = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthresholdxp"
    b"?@\x00\x00\x00\x00\x00\x00w\x08\x00\x00\x00\x10\x00\x00\x00\x00x"
)


def test_a_file_of_java_is_read_and_written_byte_for_byte() -> None:
    assert serialized_map.decode(JAVA_ONE) == {b'["c",{"f":0}]': b'{"p":0}'}
    assert serialized_map.encode({b'["c",{"f":0}]': b'{"p":0}'}) == JAVA_ONE
    assert serialized_map.decode(JAVA_NONE) == {}
    assert serialized_map.encode({}) == JAVA_NONE


@given(st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=40), max_size=40))
def test_any_map_survives_a_round_trip(entries: dict[bytes, bytes | None]) -> None:
    assert serialized_map.decode(serialized_map.encode(entries)) == entries


@given(st.integers(min_value=0, max_value=len(JAVA_ONE) - 1))
def test_a_file_that_ends_early_is_an_error(size: int) -> None:
    with pytest.raises(DataError):
        serialized_map.decode(JAVA_ONE[:size])


@given(st.binary(max_size=200))
def test_invalid_data_is_an_error(data: bytes) -> None:
    with pytest.raises(DataError):
        serialized_map.decode(data)


@given(st.integers(min_value=0, max_value=len(JAVA_ONE) - 1), st.integers(min_value=0, max_value=255))
def test_a_changed_byte_is_an_error_or_another_map_but_never_a_crash(at: int, byte: int) -> None:
    changed = JAVA_ONE[:at] + bytes([byte]) + JAVA_ONE[at + 1 :]
    with contextlib.suppress(DataError):
        serialized_map.decode(changed)


def test_a_key_has_the_bytes_that_java_looks_up() -> None:
    # Written by Apache's worker 4.3.1 for an offset that was altered over REST.
    partition = {"z": '\u00fc \u2028"\\/', "a": 1, "b": True, "n": None}
    assert encode_key("stopped", partition) == '["stopped",{"a":1,"b":true,"z":"\u00fc \u2028\\"\\\\/","n":null}]'.encode()
    values = {"e": 1e300, "small": 1e-7, "f": 100.0, "s": "\U0001f642"}
    assert encode_value(values) == rb'{"e":1.0E300,"small":1.0E-7,"f":100.0,"s":"\uD83D\uDE42"}'
    assert encode_key("\U0001f642", {"f": "\x1b"}) == rb'["\uD83D\uDE42",{"f":"\u001B"}]'
    assert decode_key(encode_key("\U0001f642", partition)) == ("\U0001f642", partition)


def test_keys_and_values_are_compact_json() -> None:
    assert encode_key("local-file-source", {"filename": "/tmp/ä"}) == '["local-file-source",{"filename":"/tmp/ä"}]'.encode()
    assert encode_value({"position": 42}) == b'{"position":42}'
    assert encode_value(None) is None
    assert decode_key(b'["c",{"a":1}]') == ("c", {"a": 1})
    assert decode_key(b'{"a":1}') is None
    assert decode_key(b"\xff") is None


@pytest.mark.parametrize(("bad", "kind"), [([1], "ARRAY"), ({}, "MAP"), (object(), "object")])
def test_offsets_are_flat(bad: object, kind: str) -> None:
    with pytest.raises(DataError, match=f"Offsets may only contain primitive types as values, but field a contains {kind}$"):
        encode_value({"a": bad})


def test_offsets_have_string_keys() -> None:
    with pytest.raises(DataError, match="Offsets may only use String keys"):
        encode_value({1: 2})  # type: ignore[dict-item]


def test_partitions_are_compared_by_value_and_type() -> None:
    assert partition_id({"a": 1, "b": 2}) == partition_id({"b": 2, "a": 1})
    assert partition_id({"a": 1}) != partition_id({"a": "1"})
    assert partition_id({"a": 1}) != partition_id({"a": True})


def test_stored_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    with OffsetFile(path) as store:
        assert store.get("c", {"filename": "ä"}) is None
        store.put("c", [({"filename": "ä"}, {"position": 2**40})])
        store.put("other", [({"filename": "ä"}, {"position": 1})])
    with OffsetFile(path) as store:
        assert store.get("c", {"filename": "ä"}) == {"position": 2**40}
        assert [(e.partition, e.offset) for e in store.entries("c")] == [({"filename": "ä"}, {"position": 2**40})]
        store.put("c", [({"filename": "ä"}, None)])
        assert store.entries("c") == []
        assert store.get("other", {"filename": "ä"}) == {"position": 1}


def test_a_key_keeps_its_stored_bytes(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(serialized_map.encode({b'["c",{"b":1,"a":2}]': b'{"p":1}'}))
    with OffsetFile(path) as store:
        assert store.get("c", {"a": 2, "b": 1}) == {"p": 1}
        store.put("c", [({"a": 2, "b": 1}, {"p": 2})])
    assert serialized_map.decode(path.read_bytes()) == {b'["c",{"b":1,"a":2}]': b'{"p":2}'}


def test_a_second_worker_is_rejected_with_the_owner_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    with OffsetFile(path), pytest.raises(ConfigError, match=rf"in use by another worker \(process {os.getpid()}\)"):
        OffsetFile(path)
    OffsetFile(path).close()


def test_a_full_disk_at_the_start_is_reported_and_releases_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "offsets"
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", no_room)
        with pytest.raises(ConfigError, match="cannot be written to: No space left on device"):
            OffsetFile(path)
    OffsetFile(path).close()


def test_a_damaged_file_is_reported_with_the_position_and_a_fix(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(JAVA_ONE[:60])
    with pytest.raises(ConfigError) as caught:
        OffsetFile(path)
    assert str(path) in str(caught.value)
    assert "the file ends after 60 bytes" in str(caught.value)
    assert "move it away" in str(caught.value)
    path.unlink()
    OffsetFile(path).close()  # the refusal has given the lock back


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"offset\.storage\.file\.filename"):
        OffsetFile(tmp_path / "none" / "offsets")


def test_after_close_nothing_is_written(tmp_path: Path) -> None:
    store = OffsetFile(tmp_path / "offsets")
    store.close()
    with pytest.raises(ConnectError, match="closed"):
        store.put("c", [({}, {"p": 1})])


KILLED = """
import sys
from worker.storage.file_offset_store import OffsetFile
store = OffsetFile(sys.argv[1])
for i in range(100000):
    store.put("c", [({"f": "x"}, {"p": i}), ({"f": "y" * 20000}, {"p": i})])
    print(i, flush=True)
"""


KILLED_HALFWAY = """
import os, signal, sys
from worker.storage.file_offset_store import OffsetFile
store = OffsetFile(sys.argv[1])
store.put("c", [({"f": "x"}, {"p": 1})])
write = os.write
def write_half(file, data):
    write(file, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
os.write = write_half
store.put("c", [({"f": "x"}, {"p": 2})])
"""


def test_a_kill_in_the_middle_of_a_write_leaves_the_last_offsets(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    done = subprocess.run([sys.executable, "-c", KILLED_HALFWAY, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with OffsetFile(path) as store:
        assert store.get("c", {"f": "x"}) == {"p": 1}
    assert not path.with_name("offsets.tmp").exists()


@pytest.mark.parametrize("after", [1, 3, 10])
def test_a_kill_while_writing_leaves_the_last_offsets_or_newer(tmp_path: Path, after: int) -> None:
    path = tmp_path / "offsets"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(after)][-1]
        process.kill()
    with OffsetFile(path) as store:
        stored = store.get("c", {"f": "x"})
        assert stored is not None
        assert stored["p"] >= acknowledged
        assert store.get("c", {"f": "y" * 20000}) == stored
    assert not path.with_name("offsets.tmp").exists()

"""Files of a table that are missing, cut, or changed, and folders that nobody may write into."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark.tables.files.live_files import UnreadableFile
from tests.integration.spark.lake import Lake

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def lake(run: Any, topic: Any, spark_props: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """An upsert table with several files and deletion vectors, which each test leaves in order."""
    opened = Lake(run, topic, spark_props, "upsert", tmp_path_factory.mktemp("damaged"))
    opened.write(6)
    opened.write(3)
    yield opened
    opened.close()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    """Changes one bit of the data of the last vector in a file."""
    return content[:-6] + bytes([content[-6] ^ 4]) + content[-5:]


def remove(content: bytes) -> None:
    return None


def garble(content: bytes) -> bytes:
    return b"garbage"


@pytest.mark.parametrize(
    ("pattern", "damage", "error", "message"),
    [
        ("*.parquet", cut, UnreadableFile, r"/t/part-.*\.parquet cannot be read: .*magic bytes.*Restore"),
        ("*.bin", flip, UnreadableFile, r"/t/deletion_vector_.*\.bin cannot be read: .*checksum.*Restore"),
        ("_delta_log/*[1-9].json", cut, ConnectError, r"/t/_delta_log/\d+\.json is damaged.*Restore"),
        ("*.bin", remove, UnreadableFile, r"the file .*/t/deletion_vector_.*\.bin, which does not exist\. Restore"),
        pytest.param(
            *("*.parquet", remove, UnreadableFile, r"the file .*/t/part-.*\.parquet, which does not exist\. Restore"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_damaged_file_is_named_and_nothing_is_written(
    lake: Lake, pattern: str, damage: Callable[[bytes], bytes | None], error: type[ConnectError], message: str
) -> None:
    lake.stop()
    lake.write()  # leaves a vector for the tests of vectors
    lake.stop()
    newest = lake.newest_commit()
    restore = lake.damage(pattern, damage)
    lake.refuses(error, message)
    assert lake.newest_commit() == newest
    restore()
    lake.restarted_writes_all()


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [("_delta_log/[0-9]*.crc", cut), ("_delta_log/_last_checkpoint", garble)],
)
def test_what_the_log_has_twice_may_be_damaged(lake: Lake, pattern: str, damage: Callable[[bytes], bytes | None]) -> None:
    (lake.log / "_last_checkpoint").touch()
    lake.damage(pattern, damage)
    lake.write()
    lake.restarted_writes_all()
    (lake.log / "_last_checkpoint").unlink()


@pytest.mark.parametrize("folder", ["t", "t/_delta_log"])
def test_folder_without_write_permission_is_reported(lake: Lake, folder: str) -> None:
    path = Path(lake.location, folder)
    # Permissions do not apply to root, attributes do.
    change, lock, unlock = ("chattr", "+i", "-i") if os.geteuid() == 0 else ("chmod", "a-w", "u+w")
    done = subprocess.run([change, lock, path], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"root may write anywhere, and this file system has no attribute against it: {done.stderr.strip()}")
    try:
        before = set(lake.folder.iterdir())
        lake.refuses(ConnectError, r"table t at .*let the worker and Spark write into the table's folder, then restart the task")
        assert folder != "t" or set(lake.folder.iterdir()) == before
    finally:
        subprocess.run([change, unlock, path], check=True)
    lake.restarted_writes_all()

"""Storage that fails: a full disk, something in the way, a store that is unavailable, and wrong credentials."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError, RetriableError
from connectors.spark.tables.staging import Staging
from tests.integration.spark.lake import Lake, field, message
from tests.support import randomness
from tests.support.s3 import EmbeddedS3

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FULL = r".*No space left on device.*free disk space, then restart the task"
BLOCK_BYTES = 4096
VALUE = message([field("id", "int64")], {"id": 1})


class Disk:
    """A small file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filling = folder / "filling"

    def fill(self, free_bytes: int = 0) -> None:
        """Leaves only so many bytes free."""
        self.clear()
        found = os.statvfs(self.folder)
        self._filling.write_bytes(bytes(found.f_bavail * found.f_bsize - free_bytes))

    def clear(self) -> None:
        self._filling.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk that gets full takes the right to mount a small one: {done.stderr.strip()}")
    yield Disk(folder)
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def open_lake(run: Any, topic: Any, spark_props: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Lake]]:
    opened: list[Lake] = []

    def lake(mode: str, location: Path | str, **own: str) -> Lake:
        opened.append(Lake(run, topic, spark_props | own, mode, location))
        return opened[-1]

    yield lake
    for one in opened:
        one.close()


def test_full_disk_fails_the_task_and_keeps_the_table(open_lake: Callable[..., Lake], disk: Disk) -> None:
    lake = open_lake("upsert", disk.folder)
    lake.add()
    disk.fill()
    lake.refuses(ConnectError, f"table t at .*/t{FULL}")
    lake.stop()
    disk.clear()
    lake.write()  # the table whose creation ended early
    lake.check()
    lake.write()
    before = sorted(lake.folder.iterdir())
    disk.fill()
    lake.refuses(ConnectError, f"table t at .*/t{FULL}")  # the worker's files
    assert sorted(lake.folder.iterdir()) == before
    disk.fill(2 * BLOCK_BYTES)
    lake.refuses(ConnectError, f"table t at .*/t: IOException{FULL}")  # the log
    disk.clear()
    lake.restarted_writes_all()


def test_full_disk_of_staging_files_leaves_none_behind(disk: Disk) -> None:
    staging = Staging(str(disk.folder), "lake-0")
    disk.fill(BLOCK_BYTES)
    rows = pa.table({"data": [randomness.chance("block").randbytes(BLOCK_BYTES)] * 4})
    with pytest.raises(ConnectError, match=f"cannot write staging files to {disk.folder}/.sluice-staging/lake-0{FULL}"):
        staging.write(rows)
    assert not list(disk.folder.rglob("*.parquet"))
    disk.clear()
    with staging.write(rows) as staged:
        assert Path(staged.uri).exists()


def test_full_disk_of_a_parquet_table_loses_nothing(run: Any, topic: Any, disk: Disk) -> None:
    t = topic("t", schemas=True)
    props = {"name": "lake", "topics": "t", "table.format": "parquet", "table.location": str(disk.folder)}
    props["commit.interval.ms"] = "600000"
    t.add(None, VALUE)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    t.add(None, VALUE)
    disk.fill()
    task_run.deliver()
    with pytest.raises(ConnectError, match=f"cannot write to {disk.folder}/t{FULL}"):
        task_run.commit()
    task_run.task.close()
    disk.clear()
    restarted = run(props, [t], raw=True, group={})
    restarted.deliver()
    restarted.close()
    import pyarrow.parquet as pq

    # The first file only says where the partition begins.
    assert sorted(pq.read_metadata(path).num_rows for path in (disk.folder / "t").glob("*.parquet")) == [0, 1, 1]


def test_what_is_in_the_way_of_a_table_is_named(open_lake: Callable[..., Lake], tmp_path: Path) -> None:
    location = tmp_path / "lake"
    location.write_text("a file")
    lake = open_lake("append", location)
    lake.refuses(ConnectError, rf"{location}/\.sluice-staging.* Not a directory; a file is where a folder is needed")
    location.unlink()
    location.mkdir()
    lake.folder.write_text("a file")
    lake.refuses(ConnectError, r"table t at .*/lake/t cannot be created, because it is a file\. Move what is there away")
    lake.stop()
    lake.folder.unlink()
    lake.folder.mkdir()
    (lake.folder / "data.csv").write_text("1,2")
    lake.refuses(ConnectError, r"table t at .*/lake/t cannot be created, because there are other files, such as data\.csv")
    (lake.folder / "data.csv").unlink()
    lake.restarted_writes_all()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedS3]:
    server = EmbeddedS3()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.mark.long
def test_store_with_wrong_credentials_fails_the_task_and_an_unavailable_one_is_retried(
    run: Any, topic: Any, s3: EmbeddedS3
) -> None:
    location = f"s3a://{s3.create_bucket()}/lake"
    t = topic("t", schemas=True)
    props = {"name": "lake", "topics": "t", "table.format": "parquet", "table.location": location, "commit.interval.ms": "600000"}
    t.add(None, VALUE)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    s3.check_credentials()
    with pytest.raises(ConnectError, match=rf"{location}/t.*INVALID_ACCESS_KEY_ID.*check the credentials") as refused:
        task_run.commit()
    assert not isinstance(refused.value, RetriableError)
    s3.accept_credentials()
    task_run.commit()
    t.add(None, VALUE)
    task_run.deliver()
    s3.stop()
    with pytest.raises(RetriableError, match=r"cannot write .*/lake/t/sluice-t-0-.*error sending request"):
        task_run.commit()
    task_run.task.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("table_format", "bucket", "expected"),
    [
        ("parquet", "absent", r"s3a://absent/lake/t.*NO_SUCH_BUCKET.*create the bucket, or correct table\.location"),
        ("delta", "absent", r"s3a://absent/lake.*NO_SUCH_BUCKET.*create the bucket, or correct table\.location"),
    ],
)
def test_store_that_cannot_be_used_is_reported_with_the_remedy(
    run: Any, topic: Any, spark_props: dict[str, str], s3: EmbeddedS3, table_format: str, bucket: str, expected: str
) -> None:
    t = topic("t", schemas=True)
    t.add(None, VALUE)
    props = {**spark_props, "name": "lake", "topics": "t", "commit.interval.ms": "600000", "table.format": table_format}
    refused: ConnectError | None = None
    task_run = None
    try:
        task_run = run({**props, "table.location": f"s3a://{bucket or s3.create_bucket()}/lake"}, [t], raw=True, group={})
        task_run.deliver()
        task_run.commit()
    except ConnectError as e:
        refused = e
    finally:
        if task_run is not None:
            task_run.task.close()
    assert refused is not None
    assert re.search(expected, refused.message)
    assert not isinstance(refused, RetriableError)

"""A table that the sink task writes, together with the rows that it must contain."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.demo.delta_table import read_delta_table

KEYS = 4


def field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    """A field of a schema in JsonConverter's format."""
    return {"field": name, "type": kind, "optional": True, **more}


def message(fields: list[dict[str, Any]], payload: Mapping[str, Any]) -> bytes:
    """A record value in JsonConverter's format."""
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()


class Lake:
    """One topic, its table, and the task between them. Records are numbered; upserts have ``KEYS`` different keys."""

    fields = (field("id", "int32"), field("v", "string"))

    def __init__(
        self,
        run: Any,
        topic: Any,
        props: Mapping[str, str],
        mode: str,
        location: Path | str,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """``storage_options``: with which delta-rs reads the table, if it is not on a local disk."""
        self.location = str(location)
        self.path = f"{self.location}/t"
        self.folder = Path(self.path)
        self._storage_options = storage_options
        self.log = self.folder / "_delta_log"
        self._upserts = mode == "upsert"
        self._run = run
        self._topic = topic("t", schemas=True)
        self.props = {**props, "table.location": self.location, "write.mode": mode, "metadata.columns": "none"}
        self.props |= {"name": "lake", "topics": "t", "commit.interval.ms": "600000"}
        if self._upserts:
            self.props["key.columns"] = "id"
        self.group: dict[Any, int] = {}
        self.first = 0
        """The first record that the table must contain."""
        self._count = 0
        self.lease = session.lease(parse_config(self.props).spark)
        self.task_run: Any = None

    def add(self, count: int = 3) -> None:
        """Adds records to the topic."""
        for number in range(self._count, self._count + count):
            id_ = number % KEYS if self._upserts else number
            self._topic.add(None, message(list(self.fields), {"id": id_, "v": f"v{number}"}))
        self._count += count

    def write(self, count: int = 3) -> None:
        """Adds records, and writes all that the table does not have yet; starts the task if it is not running."""
        self.add(count)
        if self.task_run is None:
            self.task_run = self._run(self.props, [self._topic], raw=True, group=self.group)
        self.task_run.deliver()
        self.task_run.commit()

    def refuses(self, error: type[ConnectError], message: str) -> str:
        """Writes records, which fails with this very class of error. Returns its message."""
        with pytest.raises(error, match=message) as raised:
            self.write()
        assert type(raised.value) is error
        return raised.value.message

    def stop(self) -> None:
        """Ends the task without another commit, as a worker does after an error."""
        if self.task_run is not None:
            self.task_run.task.close()
            self.task_run = None

    def close(self) -> None:
        self.stop()
        self.lease.release()

    def forget(self) -> None:
        """The rows so far are gone for good."""
        self.first = self._count

    def sql(self, statement: str) -> None:
        """Runs a statement in which ``{t}`` is the table."""
        self.lease.session().sql(statement.format(t=f"delta.`{self.path}`")).collect()

    def follow(self, advice: str) -> None:
        """Runs the statements that a message gives, and restarts the task, as the message says."""
        found = re.search(r"(ALTER TABLE .*?) and restart the task", advice)
        assert found is not None, advice
        self.stop()
        for statement in found.group(1).split("; "):
            self.lease.session().sql(statement)

    def check(self, *, with_spark: bool = False) -> None:
        """The table has each record once, as delta-rs reads it, or Spark if delta-rs lacks a feature of the table."""
        if with_spark:
            frame = self.lease.session().read.format("delta").load(self.path).select("id", "v")
            found = [tuple(row) for row in frame.collect()]
        else:
            rows = read_delta_table(self.path, ["id", "v"], self._storage_options).to_pylist()
            found = [(row["id"], row["v"]) for row in rows]
        numbers = range(self.first, self._count)
        expected = [(n % KEYS, f"v{n}") if self._upserts else (n, f"v{n}") for n in numbers]
        assert sorted(found) == sorted(dict(expected).items() if self._upserts else expected)

    def restarted_writes_all(self, *, with_spark: bool = False) -> None:
        """The task continues after a restart, and nothing is lost or doubled."""
        self.stop()
        self.write()
        self.check(with_spark=with_spark)

    def newest_commit(self) -> Path:
        return max(self.log.glob("*.json"))

    def damage(self, pattern: str, change: Callable[[bytes], bytes | None]) -> Callable[[], None]:
        """Changes the files of the table (None deletes one); returns how to restore them."""
        files = {path: path.read_bytes() for path in self.folder.glob(pattern)}
        assert files, pattern
        for path, content in files.items():
            changed = change(content)
            if changed is None:
                path.unlink()
            else:
                path.write_bytes(changed)

        def restore() -> None:
            for path, content in files.items():
                path.write_bytes(content)

        return restore

"""What snapshots still have to read: a list of tables, which offsets contain, so that a restart continues it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class JobKind(Enum):
    """Why a table is read."""

    INITIAL = "initial"
    BLOCKING = "blocking"
    """A signal has asked for it; no changes are streamed meanwhile."""
    INCREMENTAL = "incremental"
    """Changes are streamed between its chunks."""


@dataclass(frozen=True, slots=True)
class TableJob:
    """A table to read. ``after`` is the identity of the last row that was read, None at the beginning. ``condition`` is SQL."""

    table: str
    kind: JobKind
    after: tuple[Any, ...] | None = None
    condition: str = ""
    signal_id: str = ""

    def read_up_to(self, after: tuple[Any, ...]) -> TableJob:
        """The job after more rows."""
        return replace(self, after=after)


def dump_jobs(jobs: Iterable[TableJob]) -> str:
    """Jobs as offsets contain them."""
    return json.dumps(
        [
            {
                "table": job.table,
                "kind": job.kind.value,
                "after": None if job.after is None else [_dump(value) for value in job.after],
                "condition": job.condition,
                "signal_id": job.signal_id,
            }
            for job in jobs
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def parse_jobs(text: str | None) -> list[TableJob]:
    """Parses what :func:`dump_jobs` wrote."""
    return [
        TableJob(
            job["table"],
            JobKind(job["kind"]),
            None if job["after"] is None else tuple(_parse(value) for value in job["after"]),
            job["condition"],
            job["signal_id"],
        )
        for job in json.loads(text or "[]")
    ]


def _dump(value: Any) -> Any:
    return {"blob": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _parse(value: Any) -> Any:
    return base64.b64decode(value["blob"]) if isinstance(value, dict) else value

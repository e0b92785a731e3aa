"""What the writer of a spool reports to the reader."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from connect.spool.files import naming_spool, replace_file

_NAME = "status.json"


class WriterState(Enum):
    """The state of the process that runs the connector."""

    STARTING = "starting"
    RUNNING = "running"
    LOADED = "loaded"
    """It was to read what existed, has done so, and has ended."""
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """A state and the process that is or was in it. ``error`` says why it failed."""

    state: WriterState
    process: int
    error: str | None = None


def write_status(directory: Path, status: WriterStatus) -> None:
    """Replaces the status. Raises ConnectError."""
    with naming_spool(directory, "write to"):
        replace_file(directory / _NAME, json.dumps({**asdict(status), "state": status.state.value}).encode() + b"\n")


def read_status(directory: Path) -> WriterStatus | None:
    """Returns the last status; None if there is none that can be read."""
    try:
        node = json.loads((directory / _NAME).read_bytes())
        return WriterStatus(WriterState(node["state"]), node["process"], node["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

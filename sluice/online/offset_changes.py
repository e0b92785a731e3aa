"""Changes the offsets of a connector: stops it if asked, shows what changes, and remembers what can be undone."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.errors import BadRequestError, ConfigError, ConnectError
from rest.client import ConnectClient

STOPPED = "STOPPED"
_STATE_TIMEOUT_S = 60.0
_FORM = '[{"partition": {...}, "offset": {...}}, ...], as sluice offsets get NAME -o json prints it'
Offsets = Mapping[str, Any]
"""Offsets by partition, which is JSON text with sorted keys."""


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The offset of a partition; None is none."""

    partition: Mapping[str, Any]
    before: Any
    after: Any


def read_entries(text: str, described_as: str) -> list[dict[str, Any]]:
    """Reads offsets in JSON. Raises ConfigError that starts with ``described_as``."""
    try:
        node = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"{described_as}: not JSON: {e}. Expected {_FORM}") from e
    entries = node["offsets"] if isinstance(node, dict) and "offsets" in node else node
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{described_as} has no offsets. Expected {_FORM}")
    for at, one in enumerate(entries):
        if not isinstance(one, dict) or not isinstance(one.get("partition"), dict) or "offset" not in one:
            raise ConfigError(f"{described_as}: entry {at} has no partition or no offset. Expected {_FORM}")
    return [{"partition": one["partition"], "offset": one["offset"]} for one in entries]


def as_offsets(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns offsets by partition."""
    return {json.dumps(one["partition"], sort_keys=True): one["offset"] for one in entries}


def changes_between(before: Offsets, wanted: Offsets) -> list[OffsetChange]:
    """Returns what the wanted offsets change. Partitions that they do not have stay."""
    return [
        OffsetChange(json.loads(partition), before.get(partition), offset)
        for partition, offset in wanted.items()
        if before.get(partition) != offset
    ]


def change_offsets(client: ConnectClient, name: str, changes: Sequence[OffsetChange], *, stops: bool) -> Path:
    """Makes the changes, and returns the file from which they can be undone.

    ``stops``: a connector that is not stopped is stopped, and afterwards gets its former state again, also if the change fails.
    Otherwise it is refused. Raises the client's errors, and ConnectError if the connector does not stop in time.
    """
    state = client.status(name)["connector"]["state"]
    must_stop = state != STOPPED
    if must_stop and not stops:
        raise BadRequestError(
            f"Connector {name} is {state}, and only offsets of a stopped one can change: add --stop, or use sluice stop {name}"
        )
    if must_stop:
        client.stop(name)
        client.wait_for(name, STOPPED, timeout_s=_STATE_TIMEOUT_S)
    try:
        # The tasks may have moved them until they ended.
        last = as_offsets(client.offsets(name))
        keys = [json.dumps(one.partition, sort_keys=True) for one in changes]
        undo = _remember(client, name, [{"partition": json.loads(key), "offset": last.get(key)} for key in keys])
        try:
            client.alter_offsets(name, [{"partition": one.partition, "offset": one.after} for one in changes])
        except BadRequestError:
            undo.unlink()  # nothing was changed: what can be undone is the change before
            raise
    finally:
        if must_stop:
            (client.pause if state == "PAUSED" else client.resume)(name)
    return undo


def undo_file(client: ConnectClient, name: str) -> Path:
    """Returns where the offsets before the last change are. Raises ConnectError if none was made from here."""
    found = sorted(_folder(client, name).glob("*.json"))
    if not found:
        raise ConnectError(f"No offsets of {name} at {client.url} were changed from here that could be restored")
    return found[-1]


def _remember(client: ConnectClient, name: str, entries: Sequence[Mapping[str, Any]]) -> Path:
    folder = _folder(client, name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.time_ns():020}.json"
    with path.open("x", encoding="utf-8") as file:
        json.dump(list(entries), file)
        file.flush()
        os.fsync(file.fileno())
    return path


def _folder(client: ConnectClient, name: str) -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "sluice" / "offsets" / hashlib.sha256(f"{client.url}\n{name}".encode()).hexdigest()[:16]

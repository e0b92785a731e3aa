"""What has to change in a cluster so that it has the connectors of some files."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect.config.connector_file import NAME, ConnectorFile, files_below, parse_connector_file
from connect.config.parsing import HIDDEN
from connect.errors import ConfigError, ConnectError, NotFoundError, UnreachableError
from rest.client import ConnectClient
from rest.security.config_mask import shown_value
from worker.config.secrets import is_secret_name
from worker.lint.worker import is_worker
from worker.progress_reports import OnProgress, ignore_progress

CREATE, UPDATE, DELETE, UNCHANGED = "create", "update", "delete", "unchanged"
_CLASS = "connector.class"
_SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key whose value differs, with values as they may be shown; None is a missing key."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """What happens to one connector."""

    name: str
    action: str
    file: ConnectorFile | None = None
    """None for a connector that is deleted."""
    changes: Sequence[KeyChange] = ()
    errors: Sequence[tuple[str, str]] = ()
    """Keys with what the worker says is wrong with their values."""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What to send for a connector that is created or updated."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "action": self.action,
            "file": None if self.file is None else self.file.path,
            "changes": [{"key": one.key, "before": one.before, "after": one.after} for one in self.changes],
            "errors": [{"key": key, "message": message} for key, message in self.errors],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The connectors of the files by name, and those to delete."""

    connectors: Sequence[PlannedConnector]
    skipped: Sequence[str] = ()
    """Files in folders that describe no connector."""

    def of(self, action: str) -> list[PlannedConnector]:
        return [one for one in self.connectors if one.action == action]

    @property
    def has_changes(self) -> bool:
        return any(one.action != UNCHANGED for one in self.connectors)

    @property
    def has_errors(self) -> bool:
        return any(one.errors for one in self.connectors)

    def as_json(self) -> dict[str, Any]:
        summary = {action: len(self.of(action)) for action in (CREATE, UPDATE, DELETE, UNCHANGED)}
        return {"connectors": [one.as_json() for one in self.connectors], "summary": summary}


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was made, or the error that it has caused."""

    connector: PlannedConnector
    error: ConnectError | None


@dataclass(slots=True)
class _Files:
    found: dict[str, ConnectorFile] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        if path.is_dir():
            for one in files_below(path):
                self._add_file(one, is_named=False)
        else:
            self._add_file(path, is_named=True)

    def _add_file(self, path: Path, *, is_named: bool) -> None:
        try:
            file = parse_connector_file(path)
        except ConfigError:
            # Of files in folders, only those that would be connectors must be readable.
            if is_named or _CLASS.encode() in path.read_bytes():
                raise
            self.skipped.append(str(path))
            return
        if not is_named and (is_worker(file.config) or _CLASS not in file.config):
            self.skipped.append(str(path))
            return
        if not file.name:
            raise ConfigError(f"{path}: the connector has no name; add the key {NAME}", key=NAME)
        first = self.found.setdefault(file.name, file)
        if first is not file and Path(first.path).resolve() != path.resolve():
            raise ConfigError(f"{file.location(NAME)}: the connector in {first.path} is also named {file.name}", key=NAME)


def make_plan(client: ConnectClient, paths: Iterable[Path], *, prune: bool, on_progress: OnProgress = ignore_progress) -> Plan:
    """Compares files, and those in folders, with the cluster; asks it to validate what would change.

    With ``prune``, connectors that no file has are deleted. Raises ConfigError for a file that cannot be read or lacks a name, or
    names that two files share, and the client's errors.
    """
    files = _Files()
    for path in paths:
        files.add(path)
    if not files.found:
        raise ConfigError("The files have no connector: give files with connector.class, or folders with such files")
    live = {name: {**info["info"]["config"]} for name, info in client.connectors_expanded("info").items() if "info" in info}
    planned = []
    for done, (name, file) in enumerate(sorted(files.found.items())):
        on_progress(done, len(files.found), name)
        planned.append(_plan_connector(client, file, live.get(name)))
    if prune:
        planned += [PlannedConnector(name, DELETE) for name in sorted(live.keys() - files.found.keys())]
    return Plan(planned, files.skipped)


def _plan_connector(client: ConnectClient, file: ConnectorFile, live: Mapping[str, str | None] | None) -> PlannedConnector:
    wanted = _without_nulls({**file.config, NAME: file.name})
    before = None if live is None else _without_nulls({**live, NAME: file.name})
    if before is not None:
        wanted = _with_kept_secrets(wanted, before)
    if wanted == before:
        return PlannedConnector(file.name, UNCHANGED, file)
    if placeholders := [(key, _PLACEHOLDER) for key, value in wanted.items() if value == HIDDEN and is_secret_name(key)]:
        return PlannedConnector(file.name, UPDATE if before is not None else CREATE, file, [], placeholders)
    errors, secret_keys = _validate(client, wanted)
    changes = [
        KeyChange(key, *_shown_pair(key, (before or {}).get(key), wanted.get(key), secret_keys))
        for key in sorted((before or {}).keys() | wanted.keys())
        if (before or {}).get(key) != wanted.get(key)
    ]
    return PlannedConnector(file.name, UPDATE if before is not None else CREATE, file, changes, errors, wanted)


_PLACEHOLDER = (
    f"{HIDDEN} stands for a secret that was not shown, and the connector has no such value; "
    "write the secret, or a reference to a config provider"
)


def _with_kept_secrets(wanted: dict[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Returns the wanted configuration with the present secrets where the file has their hidden form."""
    return {
        key: before[key] if value == HIDDEN and is_secret_name(key) and key in before else value for key, value in wanted.items()
    }


def _shown_pair(key: str, before: str | None, after: str | None, secret_keys: set[str] | None) -> tuple[str | None, str | None]:
    return shown_value(key, before, secret_keys), shown_value(key, after, secret_keys)


def _without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}


def _validate(client: ConnectClient, config: Mapping[str, str]) -> tuple[list[tuple[str, str]], set[str] | None]:
    """Returns the errors by key, and the keys of type PASSWORD; None if they are unknown."""
    try:
        found = client.validate(config)
    except UnreachableError:
        raise
    except ConnectError as e:
        return [(_CLASS, e.message)], None
    configs = found.get("configs", ())
    errors = [(str(one["value"]["name"]), str(text)) for one in configs for text in one["value"].get("errors", ())]
    secret_keys = {str(one["definition"]["name"]) for one in configs if one.get("definition", {}).get("type") == "PASSWORD"}
    return errors, secret_keys


def apply_plan(
    client: ConnectClient, plan: Plan, *, wait_s: float | None, on_progress: OnProgress = ignore_progress
) -> Iterator[Applied]:
    """Makes the changes one after the other. An error does not stop the others.

    With ``wait_s``, each connector that was created or updated is waited for, so long, until it and its tasks have its state.
    """
    changing = [one for one in plan.connectors if one.action != UNCHANGED]
    for done, one in enumerate(changing):
        on_progress(done, len(changing), one.name)
        try:
            _apply(client, one)
            if wait_s is not None and one.action != DELETE:
                _wait(client, one, wait_s)
        except UnreachableError:
            raise
        except ConnectError as e:
            yield Applied(one, e)
        else:
            yield Applied(one, None)


def _apply(client: ConnectClient, planned: PlannedConnector) -> None:
    if planned.action == DELETE:
        client.delete(planned.name)
        return
    file = planned.file
    assert file is not None
    config = dict(planned.config)
    if planned.action == CREATE and file.initial_state is not None:
        client.create(file.name, config, initial_state=file.initial_state)
    else:
        client.put_config(file.name, config)


def _wait(client: ConnectClient, planned: PlannedConnector, timeout_s: float) -> None:
    if planned.action == UPDATE:
        # Workers of a cluster stop the tasks of the former configuration when they have read the new one.
        threading.Event().wait(_SETTLE_S)
    try:
        state = client.status(planned.name)["connector"]["state"]
    except NotFoundError:  # a worker that was just told may not have a status yet
        state = "RUNNING"
    client.wait_for(planned.name, state if state in ("PAUSED", "STOPPED") else "RUNNING", timeout_s=timeout_s)

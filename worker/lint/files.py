"""Checks worker and connector files together, in any order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect.config.connector_file import ConnectorFile, files_below, parse_connector_file
from connect.config.finding import Finding, Severity
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.plugins import Plugins
from worker.config.plugin_path import extend_python_path
from worker.lint import codes
from worker.lint.connector import check_connector, config_name
from worker.lint.findings import sort_findings
from worker.lint.provider_references import has_reference
from worker.lint.worker import check_worker, is_worker

_LINE_PREFIX = re.compile(r":(\d+): ")
_SLOT = ("database.hostname", "database.port", "database.dbname", "slot.name")


@dataclass(frozen=True, slots=True)
class LintReport:
    """The findings of the checked files."""

    files: Sequence[str]
    """The checked files, in order."""
    findings: Sequence[Finding]
    skipped: Sequence[str] = ()
    """Files in folders that are neither a worker's nor a connector's."""

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def check_files(paths: Iterable[str | Path], *, strict: bool = False) -> LintReport:
    """Checks files, and the worker and connector files in folders; returns the findings file by file.

    If there is exactly one worker file, connectors are checked against it. With ``strict``, a key that nothing reads is an error.
    """
    read = _FileReader()
    for path in paths:
        read.add(Path(path))
    workers = [file for file, _ in read.files if is_worker(file.config)]
    worker = _text_config(workers[0]) if len(workers) == 1 else None
    if worker is not None:
        extend_python_path(_plugin_folders(worker))
    plugins = Plugins.discover()
    conflicts = _RunConflicts()
    for file, run in read.files:
        found = list(_duplicate_keys(file))
        if is_worker(file.config):
            found += check_worker(_text_config(file), plugins, lines=file.lines)
        else:
            found += _downgrade_missing_name(file, check_connector(file.config, plugins, worker=worker, lines=file.lines))
            found += conflicts.findings(file, run)
        read.findings[file.path] = sort_findings(found, file.lines, file.path)
    every = [_strict(one) if strict else one for found in read.findings.values() for one in found]
    return LintReport(list(read.findings), every, read.skipped)


@dataclass(slots=True)
class _FileReader:
    """Reads files, each once."""

    files: list[tuple[ConnectorFile, str]] = field(default_factory=list)
    """Files with their runs: the named files are one run, and each folder is one."""
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    """Findings by file, in order."""
    skipped: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        if path.is_dir():
            for one in files_below(path):
                self._add_file(one, str(one.parent))
        else:
            self._add_file(path, "")

    def _add_file(self, path: Path, run: str) -> None:
        if str(path) in self.findings:
            return
        try:
            file = parse_connector_file(path)
        except ConfigError as e:
            if run and not _names_a_connector(path):
                self.skipped.append(str(path))
            else:
                self.findings[str(path)] = [_unreadable(e, str(path))]
            return
        if run and not is_worker(file.config) and "connector.class" not in file.config:
            self.skipped.append(str(path))
        else:
            self.findings[str(path)] = []
            self.files.append((file, run))


@dataclass(slots=True)
class _RunConflicts:
    """Finds names and slots that two connectors of one run share. Different folders may be for different clusters."""

    names: dict[tuple[str, str], ConnectorFile] = field(default_factory=dict)
    slots: dict[tuple[str, ...], ConnectorFile] = field(default_factory=dict)

    def findings(self, file: ConnectorFile, run: str) -> Iterator[Finding]:
        name = config_name(file.config)
        first = self.names.setdefault((run, name), file)
        if name and first is not file:
            yield codes.DUPLICATE_NAME.finding(f"The connector in {first.path} is also named {name}", "name")
        if "slot.name" in file.config:
            first = self.slots.setdefault((run, *(file.config.get(key) or "" for key in _SLOT)), file)
            if first is not file:
                message = f"The connector in {first.path} uses the same slot of the same database, which allows only one consumer"
                yield codes.SHARED_SLOT.finding(message, "slot.name")


def _plugin_folders(worker: Mapping[str, str]) -> list[str]:
    value = worker.get("plugin.path")
    entries = [] if has_reference(value) else parse_value("plugin.path", value, ConfigType.LIST) or []
    return [entry for entry in entries if Path(entry).is_dir()]


def _names_a_connector(path: Path) -> bool:
    try:
        return b"connector.class" in path.read_bytes()
    except OSError:
        return True


def _unreadable(error: ConfigError, path: str) -> Finding:
    message = error.message.removeprefix(path)
    found = _LINE_PREFIX.match(message)
    line = int(found[1]) if found else None
    text = message[found.end() :] if found else message.removeprefix(": ")
    return codes.UNREADABLE_FILE.finding(text, error.key).at(path, line)


def _text_config(file: ConnectorFile) -> Mapping[str, str]:
    return {key: value for key, value in file.config.items() if value is not None}


def _duplicate_keys(file: ConnectorFile) -> Iterable[Finding]:
    for one in file.duplicates:
        message = f"{one.key} is set again in line {one.later_line}, which takes precedence"
        yield codes.DUPLICATE_KEY.finding(message, one.key).at(None, one.line)


def _downgrade_missing_name(file: ConnectorFile, findings: Iterable[Finding]) -> Iterable[Finding]:
    """Downgrades a missing name in a flat JSON file: REST takes the name from the path."""
    for one in findings:
        if one.code == codes.MISSING_KEY.name and one.path == "name" and file.path.endswith(".json"):
            yield codes.NO_NAME.finding("The file has no name; connect-standalone rejects it", "name")
        else:
            yield one


def _strict(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.ERROR) if codes.CODES[finding.code].unread else finding

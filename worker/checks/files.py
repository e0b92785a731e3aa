"""The check of files: worker and connector files, in any order, together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from connect.config.connector_file import ConnectorFile, parse_connector_file
from connect.config.finding import Finding, Severity
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.plugins import Plugins
from worker.checks import codes
from worker.checks.connector import check_connector, config_name
from worker.checks.places import ordered
from worker.checks.references import has_reference
from worker.checks.worker_keys import check_worker, is_worker
from worker.plugin_path import extend_python_path

ENDINGS = (".properties", ".json")
"""What is looked for in folders."""
_PLACE = re.compile(r":(\d+): ")
_SLOT = ("database.hostname", "database.port", "database.dbname", "slot.name")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in some files."""

    files: Sequence[str]
    """Those that were checked, in order."""
    findings: Sequence[Finding]
    passed_over: Sequence[str] = ()
    """Files of folders that are neither a worker's nor a connector's."""

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def check_files(paths: Iterable[str | Path], *, strict: bool = False) -> Report:
    """The findings of every file, file by file. Folders are looked through for files that are a worker's or a connector's.

    Connectors are checked against the worker's file if there is exactly one among them. With ``strict`` a key that nobody reads
    is an error.
    """
    files, passed_over, findings = _read(paths)
    workers = [file for file in files if is_worker(file.config)]
    worker = _texts(workers[0]) if len(workers) == 1 else None
    if worker is not None and not has_reference(worker.get("plugin.path")):
        extend_python_path(
            [
                entry
                for entry in parse_value("plugin.path", worker.get("plugin.path"), ConfigType.LIST) or ()
                if Path(entry).is_dir()
            ]
        )
    plugins = Plugins.discover()
    names: dict[tuple[str, ...], ConnectorFile] = {}
    slots: dict[tuple[str, ...], ConnectorFile] = {}
    for file in files:
        found = list(_repeated(file))
        if is_worker(file.config):
            found += check_worker(_texts(file), plugins, lines=file.lines)
        else:
            found += _nameless(file, check_connector(file.config, plugins, worker=worker, lines=file.lines))
            found += _shared(file, names, slots)
        findings[file.path] += ordered(found, file.lines, file.path)
    every = [_strict(one) if strict else one for found in findings.values() for one in found]
    return Report(list(findings), every, passed_over)


def _read(paths: Iterable[str | Path]) -> tuple[list[ConnectorFile], list[str], dict[str, list[Finding]]]:
    files, passed_over = [], []
    findings: dict[str, list[Finding]] = {}
    for path in paths:
        inside = Path(path).is_dir()
        for one in _files_below(Path(path)) if inside else [Path(path)]:
            if str(one) in findings:
                continue
            try:
                file = parse_connector_file(one)
            except ConfigError as e:
                if inside and not _names_a_connector(one):
                    passed_over.append(str(one))
                else:
                    findings[str(one)] = [_unreadable(e, str(one))]
                continue
            if inside and not is_worker(file.config) and "connector.class" not in file.config:
                passed_over.append(str(one))
                continue
            findings[str(one)] = []
            files.append(file)
    return files, passed_over, findings


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS and path.is_file())


def _names_a_connector(path: Path) -> bool:
    try:
        return b"connector.class" in path.read_bytes()
    except OSError:
        return True


def _unreadable(error: ConfigError, path: str) -> Finding:
    message = error.message.removeprefix(path)
    found = _PLACE.match(message)
    line = int(found[1]) if found else None
    text = message[found.end() :] if found else message.removeprefix(": ")
    return codes.UNREADABLE_FILE.found(text, error.key).at(path, line)


def _texts(file: ConnectorFile) -> Mapping[str, str]:
    return {key: value for key, value in file.config.items() if value is not None}


def _repeated(file: ConnectorFile) -> Iterable[Finding]:
    for one in file.repeated:
        message = f"{one.key} is given again in line {one.later_line}, and that is the one that counts"
        yield codes.DUPLICATE_KEY.found(message, one.key).at(None, one.line)


def _shared(
    file: ConnectorFile, names: dict[tuple[str, ...], ConnectorFile], slots: dict[tuple[str, ...], ConnectorFile]
) -> Iterable[Finding]:
    """What two connectors of one folder cannot both have. Those of different folders may be for different clusters."""
    folder, name = str(Path(file.path).parent), config_name(file.config)
    if name and names.setdefault((folder, name), file) is not file:
        yield codes.DUPLICATE_NAME.found(f"The connector of {names[folder, name].path} is called {name} too", "name")
    slot = (folder, *(file.config.get(key) or "" for key in _SLOT))
    if "slot.name" in file.config and slots.setdefault(slot, file) is not file:
        message = f"The connector of {slots[slot].path} uses the slot {slot[-1]} of this database too: only one of them can"
        yield codes.SHARED_SLOT.found(message, "slot.name")


def _nameless(file: ConnectorFile, findings: Iterable[Finding]) -> Iterable[Finding]:
    """A flat JSON file may lack a name: it is what REST takes for a connector that its path names."""
    for one in findings:
        if one.code == codes.MISSING_KEY.name and one.path == "name" and file.path.endswith(".json"):
            yield codes.NO_NAME.found("The file gives no name: connect-standalone refuses it", "name")
        else:
            yield one


def _strict(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.ERROR) if codes.CODES[finding.code].unread else finding

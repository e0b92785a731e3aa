"""Prepares findings for output: adds file and line, sorts, and masks secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from connect.config.definition import ConfigKey
from connect.config.finding import Finding
from connect.config.types import ConfigType
from worker.config.secrets import SecretMask


def mask_findings(findings: Iterable[Finding], config: Mapping[str, str | None], table: Mapping[str, ConfigKey]) -> list[Finding]:
    """Masks the secrets of a configuration in its findings (promise 9): values secret by the key's type or name."""
    mask = SecretMask()
    mask.add(config, {name for name, key in table.items() if key.type is ConfigType.PASSWORD})
    return [
        replace(one, message=mask.mask(one.message), suggestion=one.suggestion and mask.mask(one.suggestion)) for one in findings
    ]


def sort_findings(findings: Iterable[Finding], lines: Mapping[str, int], file: str | None) -> list[Finding]:
    """Adds file and line to the findings and sorts them by line; findings without a line come first."""
    placed = [one.at(file, one.line or lines.get(one.path or "")) for one in findings]
    return sorted(placed, key=lambda one: (one.line or 0, _rank(one), one.path or ""))


def _rank(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity.value)

"""Findings made ready to be shown: with their places, in order, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from connect.config.definition import ConfigKey
from connect.config.finding import Finding
from connect.config.types import ConfigType
from worker.config.secrets import SecretMask


def masked(findings: Iterable[Finding], config: Mapping[str, str | None], table: Mapping[str, ConfigKey]) -> list[Finding]:
    """The findings without the secrets of the configuration, which are so by the table's types or by their names (promise 9)."""
    mask = SecretMask()
    mask.add(config, {name for name, key in table.items() if key.type is ConfigType.PASSWORD})
    return [
        replace(one, message=mask.mask(one.message), suggestion=one.suggestion and mask.mask(one.suggestion)) for one in findings
    ]


def ordered(findings: Iterable[Finding], lines: Mapping[str, int], file: str | None) -> list[Finding]:
    """The findings with file and line, from the top of the file down; those about no line come first."""
    placed = [one.at(file, one.line or lines.get(one.path or "")) for one in findings]
    return sorted(placed, key=lambda one: (one.line or 0, _rank(one), one.path or ""))


def _rank(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity.value)

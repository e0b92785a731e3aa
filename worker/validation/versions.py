"""Versions of plugins (KIP-891): which one a configuration asks for. A worker here has one version of each plugin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError

_RANGE = re.compile(r"([\[(])([^,\[\]()]*),([^,\[\]()]*)([\])])|\[([^,\[\]()]+)\]")


def version_fits(requirement: str | None, version: str | None) -> bool:
    """Whether a version meets a requirement: ``1.0`` or ``[1.0]`` exactly, ``[1.0,2.0)`` a range as in Maven, ``latest``."""
    if requirement is None or not requirement.strip() or requirement.strip() == "latest":
        return True
    wanted = requirement.strip()
    match = _RANGE.fullmatch(wanted)
    if match is None or match[5] is not None:
        return version == (match[5] if match else wanted)
    if version is None:
        return False
    low, high, found = match[2].strip(), match[3].strip(), _parts(version)
    above = not low or (found >= _parts(low) if match[1] == "[" else found > _parts(low))
    below = not high or (found <= _parts(high) if match[4] == "]" else found < _parts(high))
    return above and below


def _parts(version: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"[.\-+]", version)]


def shown_range(requirement: str) -> str:
    """The requirement as Apache prints it: an exact one as a range of one."""
    return requirement if requirement[:1] in "[(" else f"[{requirement},{requirement}]"


@dataclass(frozen=True, slots=True)
class PluginVersion:
    """A version that is there."""

    plugin: str
    version: str | None

    def __call__(self, name: str, value: Any) -> None:
        if not version_fits(value, self.version):
            available = "" if self.version is None else self.version
            raise ConfigError.invalid(
                name,
                value,
                f"Plugin {self.plugin} not found that matches the version range {shown_range(value)}, "
                f"available versions: [{available}]",
            )

    def __str__(self) -> str:
        return "an available version, a range in Maven's notation, or latest"


def listed_versions(version: str | None) -> Sequence[str]:
    """What is recommended for a version key."""
    return [] if version is None else [version]

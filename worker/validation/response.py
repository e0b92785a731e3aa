"""The JSON of validation: Apache's ConfigInfos, member for member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.config.definition import ConfigKey, ConfigValue
from connect.config.parsing import to_text
from connect.config.types import ConfigType

ENDPOINT = "/connector-plugins/{connectorType}/config/validate"


@dataclass(slots=True)
class ConfigInfos:
    """A part of the answer: groups, and per key its definition and what was found."""

    groups: list[str] = field(default_factory=list)
    configs: list[dict[str, Any]] = field(default_factory=list)
    error_count: int = 0

    def add(self, key: ConfigKey | None, value: ConfigValue | None, prefix: str = "") -> None:
        """Adds one key. Without a key (nothing defines it) the value is shown as text."""
        definition = None if key is None else key_json(key, prefix)
        shown = None if value is None else value_json(value, None if key is None else key.type, prefix)
        self.configs.append({"definition": definition, "value": shown})
        if value is not None:
            self.error_count += len(value.errors)


def key_json(key: ConfigKey, prefix: str = "") -> dict[str, Any]:
    """Apache's ConfigKeyInfo."""
    return {
        "name": prefix + key.name,
        "type": key.type.value,
        "required": key.required,
        "default_value": None if key.required else to_text(key.default, key.type),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width.value,
        "display_name": key.display_name or key.name,
        "dependents": [prefix + name for name in key.dependents],
    }


def value_json(value: ConfigValue, type: ConfigType | None, prefix: str = "") -> dict[str, Any]:
    """Apache's ConfigValueInfo. A PASSWORD is ``[hidden]`` (promise 9)."""
    member = ConfigType.STRING if type in (None, ConfigType.LIST) else type
    return {
        "name": prefix + value.name,
        "value": to_text(value.value, type or ConfigType.STRING),
        "recommended_values": [to_text(v, member) for v in value.recommended_values],
        "errors": list(value.errors),
        "visible": value.visible,
    }


def build_infos(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], groups: Sequence[str]) -> ConfigInfos:
    """Values nobody defines first, then every key in its order. Of two values of a name the last counts."""
    infos = ConfigInfos(groups=list(groups))
    by_name: dict[str, ConfigValue] = {}
    for value in values:
        by_name[value.name] = value
        if value.name not in keys:
            infos.add(None, value)
    for name, key in keys.items():
        infos.add(key, by_name.get(name))
    return infos


def prefixed_infos(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], prefix: str) -> ConfigInfos:
    """Values of a part, as a converter, whose keys stand below a prefix in the connector's configuration."""
    infos = ConfigInfos()
    for value in values:
        key = keys.get(value.name)
        if key is not None and key.group is not None and key.group not in infos.groups:
            infos.groups.append(key.group)
        # Whether a part's key is visible is not carried over, as in Apache.
        infos.add(key, ConfigValue(value.name, value.value, value.recommended_values, value.errors), prefix)
    return infos


def merge_infos(name: str, parts: Iterable[ConfigInfos | None]) -> dict[str, Any]:
    """The whole answer out of its parts."""
    groups: dict[str, None] = {}
    configs: list[dict[str, Any]] = []
    errors = 0
    for part in parts:
        if part is not None:
            groups.update(dict.fromkeys(part.groups))
            configs.extend(part.configs)
            errors += part.error_count
    return {"name": name, "error_count": errors, "groups": list(groups), "configs": configs}


def create_error_message(answer: Mapping[str, Any]) -> str | None:
    """The message of the 400 that refuses a configuration with this validation answer; None when it has no errors."""
    count = answer["error_count"]
    if not count:
        return None
    lines = [f"Connector configuration is invalid and contains the following {count} error(s):"]
    for config in answer["configs"]:
        if config["value"] is not None:
            lines.extend(config["value"]["errors"])
    lines.append(f"You can also find the above list of errors at the endpoint `{ENDPOINT}`")
    return "\n".join(lines)

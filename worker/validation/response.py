"""Builds the JSON of validation responses: Apache's ConfigInfos."""

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
    """A part of a response: groups, and the definition and value of each key."""

    groups: list[str] = field(default_factory=list)
    configs: list[dict[str, Any]] = field(default_factory=list)
    error_count: int = 0

    def add(self, key: ConfigKey | None, value: ConfigValue | None, prefix: str = "") -> None:
        """Adds one key. An undefined key (None) is shown as text."""
        definition = None if key is None else key_json(key, prefix)
        shown = None if value is None else value_json(value, None if key is None else key.type, prefix)
        self.configs.append({"definition": definition, "value": shown})
        if value is not None:
            self.error_count += len(value.errors)


def key_json(key: ConfigKey, prefix: str = "") -> dict[str, Any]:
    """Returns Apache's ConfigKeyInfo."""
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
    """Returns Apache's ConfigValueInfo. A PASSWORD is ``[hidden]`` (promise 9)."""
    member = ConfigType.STRING if type in (None, ConfigType.LIST) else type
    return {
        "name": prefix + value.name,
        "value": to_text(value.value, type or ConfigType.STRING),
        "recommended_values": [to_text(v, member) for v in value.recommended_values],
        "errors": list(value.errors),
        "visible": value.visible,
    }


def build_infos(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], groups: Sequence[str]) -> ConfigInfos:
    """Returns undefined values first, then every key in order. Of two values with the same name, the last counts."""
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
    """Returns the infos of a component, such as a converter, whose keys have a prefix in the connector's configuration."""
    infos = ConfigInfos()
    for value in values:
        key = keys.get(value.name)
        if key is not None and key.group is not None and key.group not in infos.groups:
            infos.groups.append(key.group)
        # As in Apache, the visibility of a component's key is dropped.
        infos.add(key, ConfigValue(value.name, value.value, value.recommended_values, value.errors), prefix)
    return infos


def merge_infos(name: str, parts: Iterable[ConfigInfos | None]) -> dict[str, Any]:
    """Merges all parts into the response."""
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
    """Returns Apache's message for the 400 that rejects the configuration; None if the response has no errors."""
    count = answer["error_count"]
    if not count:
        return None
    lines = [f"Connector configuration is invalid and contains the following {count} error(s):"]
    for config in answer["configs"]:
        if config["value"] is not None:
            lines.extend(config["value"]["errors"])
    lines.append(f"You can also find the above list of errors at the endpoint `{ENDPOINT}`")
    return "\n".join(lines)

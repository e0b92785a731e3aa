"""Builds and applies the transformation chain of a connector: ``transforms=a,b``, ``transforms.a.type=...``, ``predicates=...``.

Errors have Apache's texts and come in Apache's order: lists of aliases, class names, keys of all stages, and last what a stage
reports when it is configured. Source: KIP-66, KIP-585; vectors ``chain``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from connect.config.definition import ConfigDef, ConfigKey, Importance
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError, ConnectError, MissingExtraError, PluginNotFoundError
from connect.plugins import Kind, Plugins
from connect.record import ConnectRecord
from connect.strict import strict_settings
from connect.transforms.api import Predicate, Transformation
from connect.transforms.columnar.column_transformation import ColumnTransformation, apply_columnar_steps

_LIST_KEYS = {Kind.TRANSFORMATION: "transforms", Kind.PREDICATE: "predicates"}
_KIND_NAMES = {Kind.TRANSFORMATION: "Transformation", Kind.PREDICATE: "Predicate"}
_IMPORTANCE = (Importance.HIGH, Importance.MEDIUM, Importance.LOW)
_STAGE_KEYS = (
    ConfigKey("predicate", ConfigType.STRING, None, importance=Importance.MEDIUM),
    ConfigKey("negate", ConfigType.BOOLEAN, False, importance=Importance.MEDIUM),
)
_JAVA_ERROR = "org.apache.kafka.common.config.ConfigException"


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation and the predicate that selects its records."""

    alias: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def runs_for(self, record: ConnectRecord) -> bool:
        return self.predicate is None or self.predicate.test(record) is not self.negate


@dataclass(frozen=True, slots=True)
class _StageSpec:
    """A declared transformation or predicate that is not created yet."""

    kind: Kind
    alias: str
    plugin: type[Any]

    @property
    def prefix(self) -> str:
        return f"{_LIST_KEYS[self.kind]}.{self.alias}."

    def settings(self, config: Mapping[str, str | None]) -> dict[str, Any]:
        own = {key.removeprefix(self.prefix): value for key, value in config.items() if key.startswith(self.prefix)}
        own = {key: value for key, value in own.items() if key not in ("type", "predicate", "negate", "plugin.version")}
        return {**own, **strict_settings(config)}


def build_steps(config: Mapping[str, str | None], plugins: Plugins) -> list[Step]:
    """Creates and configures the chain. Raises ConfigError for what validation finds and, as Apache does, ConnectError for what a
    stage reports when it is configured."""
    aliases = {kind: _parse_aliases(config, kind) for kind in _LIST_KEYS}
    stages = [
        _StageSpec(kind, alias, _load_plugin(kind, f"{_LIST_KEYS[kind]}.{alias}.type", config, plugins))
        for kind in _LIST_KEYS
        for alias in aliases[kind]
    ]
    for stage in stages:
        _check_settings(stage, config)
    declared = {stage.alias: stage for stage in stages if stage.kind is Kind.PREDICATE}
    steps: list[Step] = []
    try:
        # Extended one by one, so that the steps before a failing one are closed.
        steps.extend(_create_step(stage, config, declared) for stage in stages if stage.kind is Kind.TRANSFORMATION)
    except BaseException:
        close_steps(steps)
        raise
    return steps


def apply_steps(steps: Sequence[Step], record: ConnectRecord) -> ConnectRecord | None:
    """Applies all steps to a record; None if one drops it."""
    current: ConnectRecord | None = record
    for step in steps:
        if current is None:
            return None
        if step.runs_for(current):
            current = step.transformation.apply(current)
    return current


def apply_steps_batch(steps: Sequence[Step], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord | None]:
    """Applies all steps to a batch and returns one result per record, in order. Raises for a bad record without naming it.

    The result may be a :class:`connect.transforms.columnar.columns.ChangedRecords`, which creates its records on first access.
    """
    results: Sequence[ConnectRecord | None] = records
    index = 0
    while index < len(steps):
        step = steps[index]
        fused = _columnar_steps_from(steps, index)
        index += max(len(fused), 1)
        if step.predicate is None and _none_dropped(results):
            results = _apply_step(step, fused, results)
            continue
        selected = [(i, record) for i, record in enumerate(results) if record is not None]
        if step.predicate is not None:
            tests = step.predicate.test_batch([record for _, record in selected])
            selected = [pair for pair, test in zip(selected, tests, strict=True) if test is not step.negate]
        if selected:
            changed = _apply_step(step, fused, [record for _, record in selected])
            results = list(results)
            for (i, _), record in zip(selected, changed, strict=True):
                results[i] = record
    return results


def _none_dropped(results: Sequence[ConnectRecord | None]) -> TypeGuard[Sequence[ConnectRecord]]:
    return None not in results


def _columnar_steps_from(steps: Sequence[Step], start: int) -> list[ColumnTransformation]:
    """The transformations from ``start`` on that can run together: those that work in columns on the same records."""
    fused: list[ColumnTransformation] = []
    for step in steps[start:]:
        if not isinstance(step.transformation, ColumnTransformation) or (fused and step.predicate is not None):
            break
        fused.append(step.transformation)
        if step.predicate is not None:
            break
    return fused


def _apply_step(
    step: Step, fused: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]
) -> Sequence[ConnectRecord | None]:
    return apply_columnar_steps(fused, records) if fused else step.transformation.apply_batch(records)


def close_steps(steps: Sequence[Step]) -> None:
    """Closes every transformation and predicate."""
    for step in steps:
        step.transformation.close()
        if step.predicate is not None:
            step.predicate.close()


def _parse_aliases(config: Mapping[str, str | None], kind: Kind) -> list[str]:
    """The aliases of a kind. Raises ConfigError for null and for a repeated alias."""
    key = _LIST_KEYS[kind]
    if key not in config:
        return []
    aliases: list[str] | None = parse_value(key, config[key], ConfigType.LIST)
    if aliases is None:
        raise ConfigError.invalid(key, None, "entry must be non null")
    if len(set(aliases)) != len(aliases):
        raise ConfigError.invalid(key, f"[{', '.join(aliases)}]", "Duplicate alias provided.")
    return aliases


def _load_plugin(kind: Kind, key: str, config: Mapping[str, str | None], plugins: Plugins) -> type[Any]:
    text = config.get(key)
    if text is None:
        raise ConfigError.invalid(key, None, f"Not a {_KIND_NAMES[kind]}")
    name = text.strip()
    try:
        plugin = plugins.load(plugins.resolve(kind, name))
    except MissingExtraError:
        raise
    except PluginNotFoundError as e:
        raise _unknown_class_error(kind, key, text, plugins) from e
    if name != text:
        # Apache finds the class by the trimmed name, but not its config definition.
        raise ConfigError.invalid(key, text, f"Error getting config definition from {_KIND_NAMES[kind]}: {text}")
    if inspect.isabstract(plugin):
        raise ConfigError("This class is abstract and cannot be created.", key=key)
    return plugin


def _unknown_class_error(kind: Kind, key: str, text: str, plugins: Plugins) -> ConfigError:
    name = text.strip()
    variants = [java for desc in plugins.of(kind) for java in desc.java_names if java.startswith(f"{name}$")]
    if variants:
        return ConfigError(f"This class is abstract and cannot be created. Did you mean {', '.join(variants)}?", key=key)
    try:
        other = plugins.find(name)
    except PluginNotFoundError:
        return ConfigError.invalid(key, text, f"Class {text} could not be found.")
    return ConfigError(f"Class class {other.class_name} does not implement the {_KIND_NAMES[kind]} interface", key=key)


def _check_settings(stage: _StageSpec, config: Mapping[str, str | None]) -> None:
    """Parses the keys of a stage in Apache's order. Raises ConfigError."""
    if stage.kind is Kind.TRANSFORMATION:
        negate, predicate = f"{stage.prefix}negate", f"{stage.prefix}predicate"
        if negate in config and predicate not in config:
            raise ConfigError(
                f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
            )
    table: ConfigDef = stage.plugin.config_def()
    shared = _STAGE_KEYS if stage.kind is Kind.TRANSFORMATION else ()
    keys = [*shared, *(key for key in table.keys.values() if key.name not in {k.name for k in shared})]
    keys.sort(key=lambda key: (not key.required, _IMPORTANCE.index(key.importance), key.name))
    for key in keys:
        _check_key(stage.prefix, key, config)


def _check_key(prefix: str, key: ConfigKey, config: Mapping[str, str | None]) -> None:
    name = prefix + key.name
    if name in config:
        value = parse_value(name, config[name], key.type)
    elif key.required:
        raise ConfigError(f'Missing required configuration "{name}" which has no default value.', key=name)
    else:
        value = key.default
    if key.validator is not None:
        key.validator(key.name, value)


def _create_step(stage: _StageSpec, config: Mapping[str, str | None], declared: Mapping[str, _StageSpec]) -> Step:
    transformation: Transformation = stage.plugin()
    _configure(transformation, stage.settings(config))
    # Apache reads these two values again without trimming: with spaces, an alias is unknown and "true" is false.
    named = config.get(f"{stage.prefix}predicate")
    if named is None:
        return Step(stage.alias, transformation)
    selected = declared.get(named)
    if selected is None:
        # Validation accepts it; the start fails with this text (vectors chain-0114 to 0117).
        missing = f"{_JAVA_ERROR}: Unknown configuration 'predicates.{named}.plugin.version'"
        raise ConnectError(f"org.apache.kafka.connect.errors.ConnectException: {missing}")
    predicate: Predicate = selected.plugin()
    _configure(predicate, selected.settings(config))
    negate = (config.get(f"{stage.prefix}negate") or "").lower() == "true"
    return Step(stage.alias, transformation, predicate, negate)


def _configure(part: Transformation | Predicate, settings: Mapping[str, Any]) -> None:
    try:
        part.configure(settings)
    except ConfigError as e:
        raise ConnectError(f"{_JAVA_ERROR}: {e.message}") from e

"""Checks one connector's configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey
from connect.config.finding import Finding, Severity
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import DistinctList, OneOf
from connect.errors import BadRequestError, ConfigError
from connect.plugins import Kind, Plugins
from worker.config.extension_keys import connector_extension_keys
from worker.config.worker_config import WorkerConfig
from worker.lint import codes
from worker.lint.context import LISTS, LintContext
from worker.lint.findings import mask_findings, sort_findings
from worker.lint.key_combinations import check_combinations
from worker.lint.provider_references import check_references, has_reference
from worker.lint.suggestions import did_you_mean, nearest_class
from worker.lint.transform_aliases import check_aliases
from worker.lint.unread_keys import check_unread_keys
from worker.validation.framework_def import CONVERTERS
from worker.validation.plugin_index import PluginType
from worker.validation.validate import NULL_VALUE, validate

_CLASS = "connector.class"
_PLUGIN_KINDS = {"transforms": PluginType.TRANSFORMATION, "predicates": PluginType.PREDICATE}
_DISCOVERED = {
    PluginType.TRANSFORMATION: Kind.TRANSFORMATION,
    PluginType.PREDICATE: Kind.PREDICATE,
    PluginType.CONVERTER: Kind.CONVERTER,
    PluginType.HEADER_CONVERTER: Kind.HEADER_CONVERTER,
}
_NEEDED_BY_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.file.filename": "offsets",
}
"""Required worker keys, for validation without a complete worker file."""


def check_connector(
    config: Mapping[str, str | None],
    plugins: Plugins,
    *,
    worker: Mapping[str, str] | None = None,
    lines: Mapping[str, int] | None = None,
    file: str | None = None,
) -> list[Finding]:
    """Returns all findings about a connector's configuration in the order of the file. Accesses no external system.

    ``worker`` is the worker's properties, if known: converters, override policy, config providers. ``lines`` maps the keys to
    line numbers in ``file``.
    """
    context = LintContext(config, plugins, worker, lines or {})
    findings = [*_class_findings(context)]
    if context.class_name:
        findings += _value_findings(context)
        findings += check_aliases(context)
        findings += check_unread_keys(context)
        findings += check_combinations(context)
    findings += check_references(config, worker)
    tables = context.tables if context.class_name else {}
    return sort_findings(mask_findings(findings, config, tables), context.lines, file)


def _class_findings(context: LintContext) -> Iterator[Finding]:
    if not context.class_name:
        if not config_name(context.config):
            yield codes.MISSING_KEY.finding("The connector has no name", "name")
        yield codes.MISSING_KEY.finding("connector.class is missing", _CLASS, _suggest_given_key(_CLASS, context))
    elif context.connector is None and not has_reference(context.class_name):
        reason = context.connector_problem
        message = f"No connector class {context.class_name} found; its own keys are not checked{reason and f' ({reason})'}"
        yield codes.UNKNOWN_CLASS.finding(message, _CLASS, _suggest_class(context.class_name, Kind.CONNECTOR, context.plugins))


def config_name(config: Mapping[str, str | None]) -> str:
    """Returns the connector's name, empty if there is none."""
    return (config.get("name") or "").strip()


def _value_findings(context: LintContext) -> Iterator[Finding]:
    """Classifies the errors of REST validation."""
    reported: set[str] = set()
    # Aliases from a config provider are unknown.
    props = {key: value for key, value in context.config.items() if key not in LISTS.values() or not has_reference(value)}
    for key in [key for key, value in props.items() if value is None]:
        yield codes.INVALID_VALUE.finding(f"{key} is null: {NULL_VALUE}", key)
    try:
        answer = validate(props, _worker_config(context.worker), context.plugin_index, offline=True)
    except (BadRequestError, ConfigError) as e:
        yield codes.INVALID_VALUE.finding(e.message, e.key if isinstance(e, ConfigError) else None)
        return
    for info in answer["configs"]:
        value = info["value"]
        if value is None or not value["errors"]:
            continue
        for finding in _classify_errors(value["name"], info["definition"], value["errors"], context):
            # topics and topics.regex get the same error each.
            if finding.message not in reported:
                reported.add(finding.message)
                yield finding
    yield from _extension_key_findings(context)


def _extension_key_findings(context: LintContext) -> Iterator[Finding]:
    """Classifies the errors of extension keys, which REST validation omits because Apache does not have them."""
    own = ConfigDef(
        key for key in connector_extension_keys(for_source=context.kind is PluginType.SOURCE) if key.name in context.config
    )
    for value in own.validate({name: raw for name, raw in context.config.items() if raw is not None}):
        if value.errors:
            yield from _classify_errors(value.name, {"type": own.keys[value.name].type.value}, value.errors, context)


def _classify_errors(
    name: str, definition: Mapping[str, Any] | None, errors: list[str], context: LintContext
) -> Iterator[Finding]:
    if (instead := context.removed.get(name)) is not None:
        # Elsewhere a removed key is ignored; this connector refuses it.
        yield replace(codes.REMOVED_KEY.finding(f"{name} no longer exists", name, instead), severity=Severity.ERROR)
        return
    raw = context.config.get(name)
    if has_reference(raw) or _has_empty_alias(name):
        return
    key = context.tables.get(name)
    if name not in context.config and not _is_given_by_older_name(key, context):
        suggestion = _suggest_given_key(name, context)
        yield codes.MISSING_KEY.finding(errors[0], name, suggestion)
        return
    if raw is None:
        return  # reported by _value_findings
    if _is_override(name):
        yield codes.OVERRIDE_REFUSED.finding(errors[0], name)
        return
    if definition is not None and definition["type"] == ConfigType.CLASS.value:
        yield _class_finding(name, raw, errors[0], context)
        return
    if definition is not None:
        try:
            parse_value(name, raw, ConfigType[definition["type"]])
        except ConfigError:
            # Errors of the rule add nothing to this one.
            yield codes.WRONG_TYPE.finding(errors[0], name)
            return
    for error in errors:
        if "Duplicate alias" in error:
            yield codes.DUPLICATE_ALIAS.finding(error, name)
        else:
            yield codes.INVALID_VALUE.finding(error, name, _suggest_choice(key, raw))


def _class_finding(name: str, raw: str, error: str, context: LintContext) -> Finding:
    kind = _PLUGIN_KINDS.get(name.partition(".")[0]) or CONVERTERS[name]
    if context.plugin_class(name, kind) is not None:
        return codes.INVALID_VALUE.finding(error, name)  # the class is right, but another value of it is wrong
    if "does not implement" in error:
        return codes.WRONG_CLASS.finding(error.replace("Class class ", "Class "), name)
    near = None if "Did you mean" in error else _suggest_class(raw.strip(), _DISCOVERED[kind], context.plugins)
    return codes.UNKNOWN_CLASS.finding(error, name, near)


def _suggest_class(name: str, kind: Kind, plugins: Plugins) -> str | None:
    variants = [java for desc in plugins.of(kind) for java in desc.java_names if java.startswith(f"{name}$")]
    if variants:
        return f"Did you mean {' or '.join(variants)}?"
    found = nearest_class(name, [word for desc in plugins.of(kind) for word in (*desc.names(), *desc.short_names())])
    return None if found is None else f"Did you mean {found}?"


def _suggest_choice(key: ConfigKey | None, raw: str) -> str | None:
    """The valid value that is nearest to the first wrong one; None if another rule is broken."""
    match key.validator if key is not None else None:
        case OneOf() as choices:
            words = [raw.strip()]
        case DistinctList(values) if values:
            choices, words = OneOf(values), [word.strip() for word in raw.split(",")]
        case _:
            return None
    wrong = next((word for word in words if not choices.allows(word)), None)
    return None if wrong is None else did_you_mean(wrong, [choice for choice in choices.values if choice is not None])


def _suggest_given_key(name: str, context: LintContext) -> str | None:
    """Asks about a key of the file that nothing reads and that may be the missing one."""
    unread = [key for key in context.config if key not in context.tables]
    head, _, last = name.rpartition(".")
    prefix = f"{head}." if name.startswith(("transforms.", "predicates.", *CONVERTERS)) else ""
    found = did_you_mean(last if prefix else name, [key.removeprefix(prefix) for key in unread if key.startswith(prefix)], prefix)
    return None if found is None else f"Is it {found.removeprefix('Did you mean ')}"


def _is_given_by_older_name(key: ConfigKey | None, context: LintContext) -> bool:
    return key is not None and any(alias in context.config for alias in key.aliases)


def _has_empty_alias(name: str) -> bool:
    return name.startswith(("transforms..", "predicates.."))


def _is_override(name: str) -> bool:
    return name.startswith(("producer.override.", "consumer.override.", "admin.override."))


def _worker_config(worker: Mapping[str, str] | None) -> WorkerConfig:
    try:
        return WorkerConfig.standalone({**_NEEDED_BY_WORKER, **(worker or {})})
    except ConfigError:
        return WorkerConfig.standalone(_NEEDED_BY_WORKER)  # reported for the worker's file

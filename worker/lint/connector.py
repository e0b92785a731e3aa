"""The check of one connector's configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey
from connect.config.finding import Finding
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import OneOf
from connect.errors import BadRequestError, ConfigError
from connect.plugins import Kind as PluginKind
from connect.plugins import Plugins
from worker.config.worker_config import WorkerConfig
from worker.lint import codes
from worker.lint.key_combinations import check_combinations
from worker.lint.nearest import did_you_mean, nearest_class
from worker.lint.provider_references import check_references, has_reference
from worker.lint.report import masked, ordered
from worker.lint.subject import LISTS, Subject
from worker.lint.transform_aliases import check_stages
from worker.lint.unread_keys import check_unread_keys
from worker.validation.extension_keys import own_keys
from worker.validation.framework_keys import CONVERTERS
from worker.validation.plugin_catalog import Kind
from worker.validation.validate import NULL_VALUE, validate

_CLASS = "connector.class"
_PLUGIN_KINDS = {"transforms": Kind.TRANSFORMATION, "predicates": Kind.PREDICATE}
_DISCOVERED = {
    Kind.TRANSFORMATION: PluginKind.TRANSFORMATION,
    Kind.PREDICATE: PluginKind.PREDICATE,
    Kind.CONVERTER: PluginKind.CONVERTER,
    Kind.HEADER_CONVERTER: PluginKind.HEADER_CONVERTER,
}
_NEEDED_BY_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.file.filename": "offsets",
}
"""Stands in for what only a whole worker's file has."""


def check_connector(
    config: Mapping[str, str | None],
    plugins: Plugins,
    *,
    worker: Mapping[str, str] | None = None,
    lines: Mapping[str, int] | None = None,
    file: str | None = None,
) -> list[Finding]:
    """Every finding about a connector's configuration, in the order of the file; nothing outside is looked at.

    ``worker`` is the worker's properties where they are known: converters, policy, providers. ``lines`` tells where each key
    stands in ``file``.
    """
    subject = Subject(config, plugins, worker, lines or {})
    findings = [*_class_findings(subject)]
    if subject.class_name:
        findings += _value_findings(subject)
        findings += check_stages(subject)
        findings += check_unread_keys(subject)
        findings += check_combinations(subject)
    findings += check_references(config, worker)
    tables = subject.tables if subject.class_name else {}
    return ordered(masked(findings, config, tables), subject.lines, file)


def _class_findings(subject: Subject) -> Iterator[Finding]:
    if not subject.class_name:
        if not config_name(subject.config):
            yield codes.MISSING_KEY.found("The connector has no name", "name")
        yield codes.MISSING_KEY.found("The configuration names no connector.class", _CLASS, _nearest_given(_CLASS, subject))
    elif subject.connector is None and not has_reference(subject.class_name):
        reason = subject.connector_problem
        message = f"There is no connector {subject.class_name} here: its own keys are not checked{reason and f' ({reason})'}"
        yield codes.UNKNOWN_CLASS.found(
            message, _CLASS, _nearest_class(subject.class_name, PluginKind.CONNECTOR, subject.plugins)
        )


def config_name(config: Mapping[str, str | None]) -> str:
    """The connector's name, empty when there is none."""
    return (config.get("name") or "").strip()


def _value_findings(subject: Subject) -> Iterator[Finding]:
    """What REST validation says, told apart by kind."""
    told: set[str] = set()
    # Aliases that come from a provider are not known.
    props = {key: value for key, value in subject.config.items() if key not in LISTS.values() or not has_reference(value)}
    for key in [key for key, value in props.items() if value is None]:
        yield codes.INVALID_VALUE.found(f"{key} is null: {NULL_VALUE}", key)
    try:
        answer = validate(props, _worker_config(subject.worker), subject.catalogue, offline=True)
    except (BadRequestError, ConfigError) as e:
        yield codes.INVALID_VALUE.found(e.message, e.key if isinstance(e, ConfigError) else None)
        return
    for info in answer["configs"]:
        value = info["value"]
        if value is None or not value["errors"]:
            continue
        for finding in _told_apart(value["name"], info["definition"], value["errors"], subject):
            # topics and topics.regex have the same error, once each.
            if finding.message not in told:
                told.add(finding.message)
                yield finding
    yield from _own_findings(subject)


def _own_findings(subject: Subject) -> Iterator[Finding]:
    """The same for keys that REST validation leaves out, since Apache's does not have them."""
    own = ConfigDef(key for key in own_keys(subject.kind) if key.name in subject.config)
    for value in own.validate({name: raw for name, raw in subject.config.items() if raw is not None}):
        if value.errors:
            yield from _told_apart(value.name, {"type": own.keys[value.name].type.value}, value.errors, subject)


def _told_apart(name: str, definition: Mapping[str, Any] | None, errors: list[str], subject: Subject) -> Iterator[Finding]:
    raw = subject.config.get(name)
    if has_reference(raw) or _is_of_empty_alias(name):
        return
    key = subject.tables.get(name)
    if name not in subject.config and not _read_by_older_name(key, subject):
        suggestion = _nearest_given(name, subject)
        yield codes.MISSING_KEY.found(errors[0], name, suggestion)
        return
    if raw is None:
        return  # told already
    if _is_override(name):
        yield codes.OVERRIDE_REFUSED.found(errors[0], name)
        return
    if definition is not None and definition["type"] == ConfigType.CLASS.value:
        yield _about_class(name, raw, errors[0], subject)
        return
    if definition is not None:
        try:
            parse_value(name, raw, ConfigType[definition["type"]])
        except ConfigError:
            # The rule's word on the value that it did not get says nothing more.
            yield codes.WRONG_TYPE.found(errors[0], name)
            return
    for error in errors:
        if "Duplicate alias" in error:
            yield codes.DUPLICATE_ALIAS.found(error, name)
        else:
            yield codes.INVALID_VALUE.found(error, name, _nearest_choice(key, raw))


def _about_class(name: str, raw: str, error: str, subject: Subject) -> Finding:
    kind = _PLUGIN_KINDS.get(name.partition(".")[0]) or CONVERTERS[name]
    if subject.plugin_class(name, kind) is not None:
        return codes.INVALID_VALUE.found(error, name)  # the class is right, and something said with it is not
    if "does not implement" in error:
        return codes.WRONG_CLASS.found(error.replace("Class class ", "Class "), name)
    near = None if "Did you mean" in error else _nearest_class(raw.strip(), _DISCOVERED[kind], subject.plugins)
    return codes.UNKNOWN_CLASS.found(error, name, near)


def _nearest_class(name: str, kind: PluginKind, plugins: Plugins) -> str | None:
    variants = [java for desc in plugins.of(kind) for java in desc.java_names if java.startswith(f"{name}$")]
    if variants:
        return f"Did you mean {' or '.join(variants)}?"
    found = nearest_class(name, [word for desc in plugins.of(kind) for word in (*desc.names(), *desc.short_names())])
    return None if found is None else f"Did you mean {found}?"


def _nearest_choice(key: ConfigKey | None, raw: str) -> str | None:
    if key is None or not isinstance(key.validator, OneOf):
        return None
    return did_you_mean(raw.strip(), [choice for choice in key.validator.values if choice is not None])


def _nearest_given(name: str, subject: Subject) -> str | None:
    """A key of the file that nobody reads and that may be the missing one."""
    unread = [key for key in subject.config if key not in subject.tables]
    head, _, last = name.rpartition(".")
    prefix = f"{head}." if name.startswith(("transforms.", "predicates.", *CONVERTERS)) else ""
    found = did_you_mean(last if prefix else name, [key.removeprefix(prefix) for key in unread if key.startswith(prefix)], prefix)
    return None if found is None else f"Is it {found.removeprefix('Did you mean ')}"


def _read_by_older_name(key: ConfigKey | None, subject: Subject) -> bool:
    return key is not None and any(alias in subject.config for alias in key.aliases)


def _is_of_empty_alias(name: str) -> bool:
    return name.startswith(("transforms..", "predicates.."))


def _is_override(name: str) -> bool:
    return name.startswith(("producer.override.", "consumer.override.", "admin.override."))


def _worker_config(worker: Mapping[str, str] | None) -> WorkerConfig:
    try:
        return WorkerConfig.standalone({**_NEEDED_BY_WORKER, **(worker or {})})
    except ConfigError:
        return WorkerConfig.standalone(_NEEDED_BY_WORKER)  # the worker's file has findings of its own

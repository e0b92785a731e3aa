"""Checks a worker's configuration, standalone or distributed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from connect.config.definition import ConfigDef, ConfigKey
from connect.config.finding import Finding
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.config.validators import OneOf
from connect.errors import ConfigError, PluginNotFoundError
from connect.plugins import Kind, Plugins
from worker.config.client_overrides import canonical_policy
from worker.config.distributed_config import MAC_ALGORITHMS, STORAGE_PREFIXES, hash_name
from worker.config.secrets import is_secret_name
from worker.config.startup_warnings import find_provider_warnings, find_unused_key_warning, is_unknown_key
from worker.config.worker_config import distributed_config_def, split_listener, standalone_config_def
from worker.kafka.settings import java_names
from worker.lint import codes
from worker.lint.findings import mask_findings, sort_findings
from worker.lint.known_keys import REMOVED_WORKER_KEYS, TOPIC_SETTINGS
from worker.lint.provider_references import has_reference
from worker.lint.suggestions import did_you_mean, nearest_class

_FILE = "offset.storage.file.filename"
_STORAGE = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_ALGORITHMS = (
    "inter.worker.key.generation.algorithm",
    "inter.worker.signature.algorithm",
    "inter.worker.verification.algorithms",
)
_WORKER_KEYS = frozenset(
    {"bootstrap.servers", _FILE, "group.id", *_STORAGE, "plugin.path", "listeners", "offset.flush.interval.ms"}
)
_CONVERTERS = {
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
    "header.converter": Kind.HEADER_CONVERTER,
}


def is_worker(config: Mapping[str, str | None]) -> bool:
    """Returns whether a configuration is a worker's: it has no connector.class, and a key that only workers have."""
    return "connector.class" not in config and not _WORKER_KEYS.isdisjoint(config)


def is_distributed(config: Mapping[str, str | None]) -> bool:
    """Returns whether a worker is distributed: it has a group ID or storage topic, and no offset file."""
    return _FILE not in config and any(key in config for key in ("group.id", *_STORAGE))


def check_worker(
    config: Mapping[str, str], plugins: Plugins, *, lines: Mapping[str, int] | None = None, file: str | None = None
) -> list[Finding]:
    """Returns all findings about a worker's configuration in the order of the file."""
    table = _table(config)
    findings = [
        *_values(config, table, plugins),
        *_unread(config, table),
        *_converter_keys(config, plugins),
        *_combinations(config),
        *_secrets(config, table),
    ]
    return sort_findings(mask_findings(findings, config, table), lines or {}, file)


def _table(config: Mapping[str, str]) -> dict[str, ConfigKey]:
    return dict((distributed_config_def() if is_distributed(config) else standalone_config_def()).keys)


def _values(config: Mapping[str, str], table: Mapping[str, ConfigKey], plugins: Plugins) -> Iterator[Finding]:
    for value in ConfigDef(table.values()).validate(config):
        raw = config.get(value.name)
        if not value.errors or has_reference(raw):
            continue
        key = table[value.name]
        if raw is None:
            yield codes.MISSING_KEY.finding(
                _missing(value.name, value.errors[0]), value.name, _suggest_given_key(value.name, config, table)
            )
            continue
        try:
            parse_value(value.name, raw, key.type)
        except ConfigError:
            yield codes.WRONG_TYPE.finding(value.errors[0], value.name)
            continue
        choices = [choice for choice in key.validator.values if choice] if isinstance(key.validator, OneOf) else []
        yield codes.INVALID_VALUE.finding(value.errors[0], value.name, did_you_mean(raw.strip(), choices))
    yield from _names(config, plugins)


def _missing(name: str, error: str) -> str:
    if name == _FILE:
        return f"{error} (A distributed worker has group.id and {', '.join(_STORAGE)} instead.)"
    return error


def _names(config: Mapping[str, str], plugins: Plugins) -> Iterator[Finding]:
    """Checks values that name classes, policies, and listeners."""
    for key, kind in _CONVERTERS.items():
        name = config.get(key, "").strip()
        if name and not has_reference(name):
            try:
                plugins.resolve(kind, name)
            except PluginNotFoundError:
                near = nearest_class(name, [word for desc in plugins.of(kind) for word in (*desc.names(), *desc.short_names())])
                message = f"Invalid value {name} for configuration {key}: Class {name} could not be found."
                yield codes.UNKNOWN_CLASS.finding(message, key, near and f"Did you mean {near}?")
    policy = "connector.client.config.override.policy"
    if policy in config and not has_reference(config[policy]):
        try:
            canonical_policy(config[policy].strip())
        except ConfigError as e:
            yield codes.INVALID_VALUE.finding(e.message, policy)
    for key in ("listeners", "admin.listeners"):
        for listener in _list(key, config):
            try:
                split_listener(listener, key)
            except ConfigError as e:
                yield codes.INVALID_VALUE.finding(e.message, key)


def _list(key: str, config: Mapping[str, str]) -> list[str]:
    value = config.get(key)
    return [] if has_reference(value) else parse_value(key, value, ConfigType.LIST) or []


def _unread(config: Mapping[str, str], table: Mapping[str, ConfigKey]) -> Iterator[Finding]:
    distributed = is_distributed(config)
    clients = set(java_names())
    for key, value in config.items():
        if key in REMOVED_WORKER_KEYS:
            yield codes.REMOVED_KEY.finding(f"{key} no longer exists", key, REMOVED_WORKER_KEYS[key])
        elif key in ("name", "connector.class") or key.startswith(("transforms", "predicates")):
            yield codes.WRONG_FILE.finding(f"{key} is a connector key and has no effect in a worker's file", key)
        elif (notice := _unused(key, value, distributed)) is not None:
            yield codes.UNUSED_SETTING.finding(notice, key)
        elif distributed and key not in table and (prefix := _storage_prefix(key)) is not None:
            below = key.removeprefix(prefix)
            if below not in TOPIC_SETTINGS:
                known = {*TOPIC_SETTINGS, *(name.removeprefix(prefix) for name in table if name.startswith(prefix))}
                yield codes.UNKNOWN_SETTING.finding(
                    f"Kafka topics have no setting {below}", key, did_you_mean(below, known, prefix)
                )
        elif is_unknown_key(key):
            message = f"Nothing reads {key}: workers have no such key"
            yield codes.UNKNOWN_KEY.finding(message, key, did_you_mean(key, {*table, *clients}))
    for notice in find_provider_warnings(config):
        yield codes.UNKNOWN_PROVIDER.finding(notice, "config.providers")


def _storage_prefix(key: str) -> str | None:
    return next((prefix for prefix in STORAGE_PREFIXES if key.startswith(prefix)), None)


def _unused(key: str, value: str, distributed: bool) -> str | None:
    try:
        return find_unused_key_warning(key, value, distributed=distributed)
    except ConfigError:
        return None  # its value is reported as invalid


def _suggest_given_key(name: str, config: Mapping[str, str], table: Mapping[str, ConfigKey]) -> str | None:
    found = did_you_mean(name, [key for key in config if key not in table])
    return None if found is None else f"Is it {found.removeprefix('Did you mean ')}"


def _converter_keys(config: Mapping[str, str], plugins: Plugins) -> Iterator[Finding]:
    for role, kind in _CONVERTERS.items():
        prefix = f"{role}."
        try:
            cls = plugins.load(plugins.resolve(kind, config.get(role, "").strip()))
        except ConfigError:
            continue
        known = cls.config_def().keys
        prefixes: tuple[str, ...] = getattr(cls, "open_prefixes", ())
        for key in config:
            below = key.removeprefix(prefix)
            if (
                key.startswith(prefix)
                and below not in known
                and below != "plugin.version"
                and not below.startswith(prefixes or ("\0",))
            ):
                message = f"Nothing reads {key}: {cls.__name__} has no key {below}"
                yield codes.UNKNOWN_KEY.finding(message, key, did_you_mean(below, known, prefix))


def _combinations(config: Mapping[str, str]) -> Iterator[Finding]:
    interval, timeout = _number("offset.flush.interval.ms", 60_000, config), _number("offset.flush.timeout.ms", 5_000, config)
    if timeout > interval:
        message = f"An offset flush may take {timeout} ms, longer than the {interval} ms between two flushes"
        key_to_blame = next(key for key in ("offset.flush.timeout.ms", "offset.flush.interval.ms") if key in config)
        yield codes.FLUSH_TOO_SLOW.finding(message, key_to_blame, "Set offset.flush.timeout.ms below offset.flush.interval.ms.")
    if is_distributed(config):
        for i, key in enumerate(_STORAGE):
            for other in _STORAGE[:i]:
                if key in config and config[key] == config.get(other):
                    yield codes.SHARED_TOPIC.finding(f"{key} and {other} are both {config[key]}", key)
        for key in _ALGORITHMS:
            for algorithm in _list(key, config):
                if hash_name(algorithm) is None:
                    message = f"Invalid value {algorithm} for configuration {key}: expected one of {', '.join(MAC_ALGORITHMS)}"
                    yield codes.INVALID_VALUE.finding(message, key, did_you_mean(algorithm, MAC_ALGORITHMS))
        session, heartbeat = _number("session.timeout.ms", 10_000, config), _number("heartbeat.interval.ms", 3_000, config)
        if heartbeat >= session:
            message = f"heartbeat.interval.ms={heartbeat} must be less than session.timeout.ms={session}"
            yield codes.INVALID_VALUE.finding(
                message, next(k for k in ("heartbeat.interval.ms", "session.timeout.ms") if k in config)
            )
    for entry in _list("plugin.path", config):
        folder = Path(entry).expanduser()
        if entry and not folder.is_dir():
            yield codes.MISSING_FOLDER.finding(f"plugin.path contains {entry}, which is not a directory", "plugin.path")


def _number(key: str, default: int, config: Mapping[str, str]) -> int:
    value = config.get(key, "").strip()
    return int(value) if value.isdecimal() and len(value) < 20 else default


def _secrets(config: Mapping[str, str], table: Mapping[str, ConfigKey]) -> Iterator[Finding]:
    for key, value in config.items():
        is_secret = table[key].type is ConfigType.PASSWORD if key in table else is_secret_name(key)
        if is_secret and value.strip() and not has_reference(value):
            yield codes.PLAIN_SECRET.finding(
                f"The value of {key} is in the file in plain text", key, "Restrict read access to the file."
            )

"""Finds keys that nothing reads, and explains why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from connect.config.finding import Finding
from worker.config.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.config.worker_config import standalone_config_def
from worker.kafka.settings import java_names
from worker.lint import codes
from worker.lint.context import LISTS, LintContext
from worker.lint.known_keys import DEPRECATED_KEYS, RENAMED_CONNECTOR_KEYS, RENAMED_TRANSFORM_KEYS, TOPIC_SETTINGS
from worker.lint.suggestions import did_you_mean, nearest_key
from worker.lint.transform_aliases import GROUPS, undeclared_alias
from worker.validation.connector_keys import SINK_KEYS, SOURCE_KEYS
from worker.validation.framework_def import CONVERTERS
from worker.validation.plugin_index import PluginType

_CLIENTS = ("producer", "consumer", "admin")
_WORKER_PREFIXES = (
    "config.providers",
    "producer.",
    "consumer.",
    "admin.",
    "listeners.",
    "offset.storage.",
    "config.storage.",
    "status.storage.",
)
_DLQ = "errors.deadletterqueue."
_SOURCE_DLQ = SOURCE_DEAD_LETTER_KEYS[0].name
_GROUP_KEYS = frozenset({"include", "exclude", "partitions", "replication.factor"})


def check_unread_keys(context: LintContext) -> Iterator[Finding]:
    """Yields a finding for each key that no component reads. Skips keys of components that are not installed."""
    for key in context.config:
        if key in context.tables:
            yield from _deprecated(key, context)
            continue
        for look in (_of_stage, _of_converter, _of_client, _of_topic_creation, _of_connector):
            found = look(key, context)
            if found is not None:
                yield from found
                break


def _deprecated(key: str, context: LintContext) -> Iterator[Finding]:
    if key in DEPRECATED_KEYS:
        yield codes.DEPRECATED_KEY.finding(f"{key} is deprecated", key, DEPRECATED_KEYS[key])
    elif key in context.older_names:
        yield codes.DEPRECATED_KEY.finding(f"{key} is a deprecated name", key, f"Use {context.older_names[key]}.")


# Each function below checks a key that no ConfigDef has. None: the key is of another type. Empty: it is valid.
_Findings = list[Finding] | None


def _of_stage(key: str, context: LintContext) -> _Findings:
    for kind, list_key in LISTS.items():
        prefix = f"{list_key}."
        if not key.startswith(prefix):
            continue
        if undeclared_alias(key, prefix, context.aliases(kind)) is not None:
            return []  # one finding per alias is enough
        alias = _longest_alias(key, prefix, context.aliases(kind))
        found = context.plugin_class(f"{prefix}{alias}.type", kind)
        if found is None:
            return []
        below, whole = key.removeprefix(f"{prefix}{alias}."), f"{prefix}{alias}."
        if _is_open(found, below):
            return []
        name = (context.config.get(f"{whole}type") or "").strip()
        new_name = RENAMED_TRANSFORM_KEYS.get((name.rpartition(".")[2].partition("$")[0], below))
        if new_name is not None:
            message = f"{key} no longer exists: Apache Kafka 4.0 removed it"
            return [codes.REMOVED_KEY.finding(message, key, f"Use {whole}{new_name}.")]
        known = [one.removeprefix(whole) for one in context.tables if one.startswith(whole)]
        return [_unknown(key, f"{_simple(name)} has no key {below}", below, known, whole)]
    return None


def _of_converter(key: str, context: LintContext) -> _Findings:
    for role, kind in CONVERTERS.items():
        if not key.startswith(f"{role}."):
            continue
        below = key.removeprefix(f"{role}.")
        if not context.config.get(role):
            message = (
                f"Nothing reads {key}: the connector does not set {role}, and the worker's converter uses the worker's settings"
            )
            return [codes.UNUSED_CONVERTER_KEYS.finding(message, key, f"Set {role} too.")]
        found = context.plugin_class(role, kind)
        if found is None or _is_open(found, below):
            return []
        known = [one.removeprefix(f"{role}.") for one in context.tables if one.startswith(f"{role}.")]
        name = _simple((context.config[role] or "").strip())
        return [_unknown(key, f"{name} has no key {below}", below, known, f"{role}.")]
    return None


def _of_client(key: str, context: LintContext) -> _Findings:
    for client in _CLIENTS:
        prefix = f"{client}.override."
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            known = java_names()
            # Settings that only librdkafka knows are passed through; a name similar to a Java setting is a typo.
            near = nearest_key(name, known)
            if name in known or near is None:
                return []
            message = f"The Kafka {client} client has no setting {name}"
            return [codes.UNKNOWN_SETTING.finding(message, key, f"Did you mean {prefix}{near}?")]
    return None


def _of_topic_creation(key: str, context: LintContext) -> _Findings:
    if not key.startswith(GROUPS) or context.kind is not PluginType.SOURCE:
        return None
    declared = [*context.list_of(f"{GROUPS}groups"), "default"]
    if undeclared_alias(key, GROUPS, declared) is not None:
        return []
    alias = _longest_alias(key, GROUPS, declared)
    whole = f"{GROUPS}{alias}."
    below = key.removeprefix(whole)
    known = _GROUP_KEYS | TOPIC_SETTINGS
    if below in known:
        return []
    return [codes.UNKNOWN_SETTING.finding(f"Kafka topics have no setting {below}", key, did_you_mean(below, known, whole))]


def _of_connector(key: str, context: LintContext) -> _Findings:
    if not context.is_known:
        return _of_unknown_connector(key, context)
    name = _simple(context.class_name)
    assert context.connector is not None
    if _is_open(type(context.connector), key):
        return []
    checks: tuple[Callable[[], Finding | None], ...] = (
        partial(_renamed, key, context),
        partial(_wrong_kind, key, context),
        partial(_wrong_file, key),
    )
    for check in checks:
        if (found := check()) is not None:
            return [found]
    if key in {value.name for value in context.connector.check_config(_without_nulls(context))}:
        return []  # the connector knows the key by a pattern and has reported its errors
    return [_unknown(key, f"{name} has no such key", key, context.tables.keys() - context.older_names.keys(), "")]


def _of_unknown_connector(key: str, context: LintContext) -> list[Finding]:
    # Only keys that cannot be the connector's own: a source may define topics.
    if key.startswith((GROUPS, _DLQ)):
        found = _wrong_kind(key, context)
        return [] if found is None else [found]
    return []


def _renamed(key: str, context: LintContext) -> Finding | None:
    new_name = RENAMED_CONNECTOR_KEYS.get(key)
    if new_name is None or new_name not in context.tables:
        return None
    return codes.REMOVED_KEY.finding(f"{key} no longer exists: Debezium 2.0 removed it", key, f"Use {new_name}.")


def _wrong_kind(key: str, context: LintContext) -> Finding | None:
    if context.kind is PluginType.SOURCE and key.startswith(_DLQ):
        message = f"{key} applies to sinks only"
        return codes.DLQ_OF_SOURCE.finding(message, key, f"For the dead letter queue of a source, set {_SOURCE_DLQ}.")
    others = (*SOURCE_KEYS, *SOURCE_DEAD_LETTER_KEYS) if context.kind is PluginType.SINK else SINK_KEYS
    if key in {one.name for one in others} or (context.kind is PluginType.SINK and key.startswith(GROUPS)):
        kind, other = ("sink", "sources") if context.kind is PluginType.SINK else ("source", "sinks")
        return codes.WRONG_KIND.finding(f"{key} is a key of {other}, but {_simple(context.class_name)} is a {kind}", key)
    return None


def _wrong_file(key: str) -> Finding | None:
    if key in standalone_config_def().keys or key.startswith(_WORKER_PREFIXES):
        suggestion = None
        client, _, setting = key.partition(".")
        if client in _CLIENTS and setting:
            suggestion = f"In a connector's file, use {client}.override.{setting}."
        return codes.WRONG_FILE.finding(f"{key} is a worker key and has no effect in a connector's file", key, suggestion)
    return None


def _unknown(key: str, why: str, word: str, known: Iterable[str], prefix: str) -> Finding:
    return codes.UNKNOWN_KEY.finding(f"Nothing reads {key}: {why}", key, did_you_mean(word, known, prefix))


def _longest_alias(key: str, prefix: str, aliases: list[str]) -> str:
    below = key.removeprefix(prefix)
    return max((alias for alias in aliases if alias and below.startswith(f"{alias}.")), key=len, default="")


def _is_open(cls: type, below: str) -> bool:
    prefixes: tuple[str, ...] = getattr(cls, "open_prefixes", ())
    return below.startswith(prefixes) if prefixes else False


def _without_nulls(context: LintContext) -> dict[str, str]:
    return {key: value for key, value in context.config.items() if value is not None}


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition(":")[2]

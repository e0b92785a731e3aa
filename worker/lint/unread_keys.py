"""Keys that nobody reads, and why each of them is not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from connect.config.finding import Finding
from worker.config.worker_config import standalone_config_def
from worker.kafka.settings import java_names
from worker.lint import codes
from worker.lint.nearest import did_you_mean, nearest
from worker.lint.renamed_keys import CONNECTOR_KEYS, DEPRECATED, TRANSFORM_KEYS
from worker.lint.subject import LISTS, Subject
from worker.lint.topic_settings import TOPIC_SETTINGS
from worker.lint.transform_aliases import GROUPS, undeclared_alias
from worker.validation.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.validation.framework_keys import CONVERTERS
from worker.validation.plugin_catalog import Kind
from worker.validation.sink_keys import SINK_KEYS
from worker.validation.source_keys import SOURCE_KEYS

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


def check_unread_keys(subject: Subject) -> Iterator[Finding]:
    """A finding for each key that no part of the configuration reads. Nothing is said of keys below what is not here."""
    for key in subject.config:
        if key in subject.tables:
            yield from _deprecated(key, subject)
            continue
        for look in (_of_stage, _of_converter, _of_client, _of_topic_creation, _of_connector):
            told = look(key, subject)
            if told is not None:
                yield from told
                break


def _deprecated(key: str, subject: Subject) -> Iterator[Finding]:
    if key in DEPRECATED:
        yield codes.DEPRECATED_KEY.found(f"{key} is deprecated", key, DEPRECATED[key])
    elif key in subject.older_names:
        yield codes.DEPRECATED_KEY.found(f"{key} is an older name", key, f"Use {subject.older_names[key]}.")


# Each of these takes a key that is in no table. None: it is not of its kind. No finding: it is, and nothing is wrong.
_Told = list[Finding] | None


def _of_stage(key: str, subject: Subject) -> _Told:
    for kind, list_key in LISTS.items():
        prefix = f"{list_key}."
        if not key.startswith(prefix):
            continue
        if undeclared_alias(key, prefix, subject.aliases(kind)) is not None:
            return []  # one finding for the alias is enough
        alias = _longest_alias(key, prefix, subject.aliases(kind))
        found = subject.plugin_class(f"{prefix}{alias}.type", kind)
        if found is None:
            return []
        below, whole = key.removeprefix(f"{prefix}{alias}."), f"{prefix}{alias}."
        if _is_open(found, below):
            return []
        name = (subject.config.get(f"{whole}type") or "").strip()
        new_name = TRANSFORM_KEYS.get((name.rpartition(".")[2].partition("$")[0], below))
        if new_name is not None:
            message = f"{key} is no longer there: Apache Kafka 4.0 took it away"
            return [codes.REMOVED_KEY.found(message, key, f"Use {whole}{new_name}.")]
        known = [one.removeprefix(whole) for one in subject.tables if one.startswith(whole)]
        return [_unknown(key, f"{_simple(name)} has no key {below}", below, known, whole)]
    return None


def _of_converter(key: str, subject: Subject) -> _Told:
    for role, kind in CONVERTERS.items():
        if not key.startswith(f"{role}."):
            continue
        below = key.removeprefix(f"{role}.")
        if not subject.config.get(role):
            message = f"{key} is not read: the connector names no {role}, and the worker's has the worker's settings"
            return [codes.UNUSED_CONVERTER_KEYS.found(message, key, f"Set {role} too.")]
        found = subject.plugin_class(role, kind)
        if found is None or _is_open(found, below):
            return []
        known = [one.removeprefix(f"{role}.") for one in subject.tables if one.startswith(f"{role}.")]
        name = _simple((subject.config[role] or "").strip())
        return [_unknown(key, f"{name} has no key {below}", below, known, f"{role}.")]
    return None


def _of_client(key: str, subject: Subject) -> _Told:
    for client in _CLIENTS:
        prefix = f"{client}.override."
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            known = java_names()
            # What librdkafka alone knows passes through; what is like a Java name is a slip.
            near = nearest(name, known)
            if name in known or near is None:
                return []
            message = f"Kafka's {client} has no setting {name}"
            return [codes.UNKNOWN_SETTING.found(message, key, f"Did you mean {prefix}{near}?")]
    return None


def _of_topic_creation(key: str, subject: Subject) -> _Told:
    if not key.startswith(GROUPS) or subject.kind is not Kind.SOURCE:
        return None
    declared = [*subject.list_of(f"{GROUPS}groups"), "default"]
    if undeclared_alias(key, GROUPS, declared) is not None:
        return []
    alias = _longest_alias(key, GROUPS, declared)
    whole = f"{GROUPS}{alias}."
    below = key.removeprefix(whole)
    known = _GROUP_KEYS | TOPIC_SETTINGS
    if below in known:
        return []
    return [codes.UNKNOWN_SETTING.found(f"Kafka's topics have no setting {below}", key, did_you_mean(below, known, whole))]


def _of_connector(key: str, subject: Subject) -> _Told:
    if not subject.is_known:
        return _of_unknown_connector(key, subject)
    name = _simple(subject.class_name)
    assert subject.connector is not None
    if _is_open(type(subject.connector), key):
        return []
    checks: tuple[Callable[[], Finding | None], ...] = (
        partial(_renamed, key, subject),
        partial(_wrong_kind, key, subject),
        partial(_wrong_file, key),
    )
    for check in checks:
        if (found := check()) is not None:
            return [found]
    if key in {value.name for value in subject.connector.check_config(_without_nulls(subject))}:
        return []  # a key that the connector knows by its form, and has told what is wrong with
    return [_unknown(key, f"{name} has no such key", key, subject.tables.keys() - subject.older_names.keys(), "")]


def _of_unknown_connector(key: str, subject: Subject) -> list[Finding]:
    # Only what cannot be the connector's own: a source may well have a key topics.
    if key.startswith((GROUPS, _DLQ)):
        found = _wrong_kind(key, subject)
        return [] if found is None else [found]
    return []


def _renamed(key: str, subject: Subject) -> Finding | None:
    new_name = CONNECTOR_KEYS.get(key)
    if new_name is None or new_name not in subject.tables:
        return None
    return codes.REMOVED_KEY.found(f"{key} is no longer there: Debezium 2.0 took it away", key, f"Use {new_name}.")


def _wrong_kind(key: str, subject: Subject) -> Finding | None:
    if subject.kind is Kind.SOURCE and key.startswith(_DLQ):
        message = f"{key} is of sinks: a source has no such dead letter queue"
        return codes.DLQ_OF_SOURCE.found(message, key, f"Sluice's workers have one for sources: {_SOURCE_DLQ}.")
    others = (*SOURCE_KEYS, *SOURCE_DEAD_LETTER_KEYS) if subject.kind is Kind.SINK else SINK_KEYS
    if key in {one.name for one in others} or (subject.kind is Kind.SINK and key.startswith(GROUPS)):
        kind, other = ("sink", "sources") if subject.kind is Kind.SINK else ("source", "sinks")
        return codes.WRONG_KIND.found(f"{key} is of {other}, and {_simple(subject.class_name)} is a {kind}", key)
    return None


def _wrong_file(key: str) -> Finding | None:
    if key in standalone_config_def().keys or key.startswith(_WORKER_PREFIXES):
        suggestion = None
        client, _, setting = key.partition(".")
        if client in _CLIENTS and setting:
            suggestion = f"In a connector's file it is {client}.override.{setting}."
        return codes.WRONG_FILE.found(f"{key} is of workers and is not read from a connector's file", key, suggestion)
    return None


def _unknown(key: str, why: str, word: str, known: Iterable[str], prefix: str) -> Finding:
    return codes.UNKNOWN_KEY.found(f"Nothing reads {key}, for {why}", key, did_you_mean(word, known, prefix))


def _longest_alias(key: str, prefix: str, aliases: list[str]) -> str:
    below = key.removeprefix(prefix)
    return max((alias for alias in aliases if alias and below.startswith(f"{alias}.")), key=len, default="")


def _is_open(cls: type, below: str) -> bool:
    prefixes: tuple[str, ...] = getattr(cls, "open_prefixes", ())
    return below.startswith(prefixes) if prefixes else False


def _without_nulls(subject: Subject) -> dict[str, str]:
    return {key: value for key, value in subject.config.items() if value is not None}


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition(":")[2]

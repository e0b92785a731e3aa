"""Combinations of keys that are each right and together lose, repeat or do nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from connect.config.finding import Finding
from connect.errors import ConfigError
from worker.config.secrets import is_secret_name, secrets_in_url
from worker.kafka.topic_creation import topic_creation_rules
from worker.lint import codes
from worker.lint.provider_references import has_reference
from worker.lint.record_shapes import check_shapes
from worker.lint.subject import Subject
from worker.validation.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.validation.plugin_catalog import Kind
from worker.validation.sink_checks import DLQ_TOPIC, topics_of

_INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_WORKER_TOPICS = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_SOURCE_DLQ = SOURCE_DEAD_LETTER_KEYS[0].name


def check_combinations(subject: Subject) -> Iterator[Finding]:
    """Findings of every rule below."""
    for rule in _RULES:
        yield from rule(subject)


def _errors(subject: Subject) -> Iterator[Finding]:
    tolerance = (subject.config.get("errors.tolerance") or "none").strip()
    dlq_key = DLQ_TOPIC if subject.kind is Kind.SINK else _SOURCE_DLQ
    has_dlq = bool((subject.config.get(dlq_key) or "").strip())
    logs = subject.flag("errors.log.enable")
    if tolerance == "all" and not has_dlq and not logs:
        message = "errors.tolerance=all skips bad records, and neither a log nor a dead letter queue keeps track of them"
        yield codes.RECORDS_VANISH.found(message, "errors.tolerance", f"Set {dlq_key} or errors.log.enable=true.")
    if tolerance == "none" and has_dlq:
        message = f"The first bad record goes to {dlq_key} and stops the task, for errors.tolerance is none"
        yield codes.DLQ_STOPS.found(message, dlq_key, "Set errors.tolerance=all to go on.")
    if subject.flag("errors.log.include.messages") and not logs:
        message = "errors.log.include.messages does nothing while errors.log.enable is false"
        yield codes.NO_EFFECT.found(message, "errors.log.include.messages")
    if not has_dlq and subject.kind is Kind.SINK:
        for key in subject.config:
            if key.startswith("errors.deadletterqueue.") and key in subject.tables and key not in (DLQ_TOPIC, _SOURCE_DLQ):
                yield codes.NO_EFFECT.found(f"{key} does nothing without {DLQ_TOPIC}", key)


def _tasks(subject: Subject) -> Iterator[Finding]:
    most = None if subject.connector is None else subject.connector.most_tasks
    wanted = subject.number("tasks.max")
    if most is not None and wanted is not None and wanted > most:
        name = subject.class_name.rpartition(".")[2]
        message = f"tasks.max is {wanted}, and {name} never makes more than {most}"
        yield codes.TOO_MANY_TASKS.found(message, "tasks.max")


def _topics(subject: Subject) -> Iterator[Finding]:
    if subject.kind is not Kind.SINK:
        return
    own = {subject.worker[key]: key for key in _WORKER_TOPICS if key in subject.worker} if subject.worker is not None else {}
    for topic in topics_of(subject.config):
        if topic in _INTERNAL_TOPICS or topic in own:
            whose = f"the worker's {own[topic]}" if topic in own else "Kafka's own"
            yield codes.INTERNAL_TOPIC.found(f"topics has {topic}, which is {whose}", "topics")
    regex = subject.config.get("topics.regex")
    if regex and not has_reference(regex):
        taken = [topic for topic in (*_INTERNAL_TOPICS, *own) if _matches(regex, topic)]
        if taken:
            yield codes.WIDE_REGEX.found(f"topics.regex={regex} takes {', '.join(taken)} too", "topics.regex")


def _matches(regex: str, topic: str) -> bool:
    try:
        return re.fullmatch(regex, topic) is not None
    except re.error:
        return False


def _exactly_once(subject: Subject) -> Iterator[Finding]:
    if subject.kind is not Kind.SOURCE:
        return
    if (subject.config.get("exactly.once.support") or "").strip().lower() == "required":
        if subject.worker is None:
            message = "exactly.once.support=required needs a worker with exactly.once.source.support=enabled"
            yield codes.EXACTLY_ONCE_WORKER.found(
                message, "exactly.once.support", "Name the worker's file too to have it checked."
            )
        elif subject.worker.get("exactly.once.source.support", "").strip().lower() != "enabled":
            message = "exactly.once.support=required, and the worker does not have exactly.once.source.support=enabled"
            yield codes.EXACTLY_ONCE_OFF.found(message, "exactly.once.support")
    boundary = (subject.config.get("transaction.boundary") or "poll").strip().lower()
    if "transaction.boundary.interval.ms" in subject.config and boundary != "interval":
        message = f"transaction.boundary.interval.ms does nothing while transaction.boundary is {boundary}"
        yield codes.NO_EFFECT.found(message, "transaction.boundary.interval.ms", "Set transaction.boundary=interval.")
    if subject.config.get("offsets.storage.topic") and subject.worker is not None and "group.id" not in subject.worker:
        message = "offsets.storage.topic does nothing on a standalone worker, which keeps offsets in a file"
        yield codes.NO_EFFECT.found(message, "offsets.storage.topic")


def _topic_creation(subject: Subject) -> Iterator[Finding]:
    keys = [key for key in subject.config if key.startswith("topic.creation.")]
    if subject.kind is not Kind.SOURCE or not keys or any(has_reference(subject.config[key]) for key in keys):
        return
    try:
        topic_creation_rules(subject.config)
    except ConfigError as e:
        code = (
            codes.MISSING_KEY
            if e.key is not None and e.key not in subject.config and "Missing" in e.message
            else codes.INVALID_VALUE
        )
        yield code.found(e.message, e.key if e.key in subject.config else keys[0])
    for group in subject.list_of("topic.creation.groups"):
        if group and group != "default" and not subject.config.get(f"topic.creation.{group}.include"):
            message = f"The group {group} takes no topic: it has no topic.creation.{group}.include"
            yield codes.NO_EFFECT.found(message, "topic.creation.groups")
    if subject.worker is not None and subject.worker.get("topic.creation.enable", "true").strip().lower() == "false":
        yield codes.NO_EFFECT.found("topic.creation.* does nothing: the worker has topic.creation.enable=false", keys[0])


_UNSAFE_OVERRIDES = (
    ("consumer.override.enable.auto.commit", lambda v: v == "true", "commits offsets of records that are not delivered yet"),
    ("producer.override.acks", lambda v: v not in ("all", "-1"), "counts records as written that a broker can still lose"),
)
_MOST_IN_FLIGHT = 5
"""Batches that brokers know the order of."""
_SET_BY_WORKER = (
    "consumer.override.key.deserializer",
    "consumer.override.value.deserializer",
    "producer.override.key.serializer",
    "producer.override.value.serializer",
)


def _overrides(subject: Subject) -> Iterator[Finding]:
    def value(key: str) -> str:
        return (subject.config.get(key) or "").strip().lower()

    for key, is_unsafe, what in _UNSAFE_OVERRIDES:
        if value(key) and not has_reference(value(key)) and is_unsafe(value(key)):
            yield codes.UNSAFE_OVERRIDE.found(f"{key}={subject.config[key]} {what}", key)
    in_flight, idempotence = "producer.override.max.in.flight.requests.per.connection", "producer.override.enable.idempotence"
    if value(idempotence) == "false":
        message = f"{idempotence}=false can change the order of records when a broker refuses some for a while"
        yield codes.UNSAFE_OVERRIDE.found(message, idempotence, "Leave it out.")
    elif (subject.number(in_flight) or 1) > 1 and value("producer.override.acks") not in ("", "all", "-1"):
        message = f"{in_flight} above 1 can change the order of records when one is sent again"
        yield codes.UNSAFE_OVERRIDE.found(message, in_flight, "Leave producer.override.acks out: numbered batches keep order.")
    elif (subject.number(in_flight) or 1) > _MOST_IN_FLIGHT:
        message = f"{in_flight} above {_MOST_IN_FLIGHT} can change the order of records when one is sent again"
        yield codes.UNSAFE_OVERRIDE.found(message, in_flight, f"Set it to {_MOST_IN_FLIGHT} or less.")
    for key in _SET_BY_WORKER:
        if key in subject.config:
            yield codes.NO_EFFECT.found(f"{key} does nothing: converters make the bytes", key)
    if value("consumer.override.auto.offset.reset") == "latest":
        message = "A new sink does not get the records that are in its topics already"
        yield codes.SKIPS_EARLIER.found(message, "consumer.override.auto.offset.reset")


def _secrets(subject: Subject) -> Iterator[Finding]:
    for key, value in subject.config.items():
        table_key = subject.tables.get(key)
        is_secret = is_secret_name(key) if table_key is None else table_key.type.value == "PASSWORD"
        if is_secret and value and value.strip() and not has_reference(value):
            suggestion = "A config provider keeps it elsewhere: ${file:/path/to/secrets.properties:key}."
            yield codes.PLAIN_SECRET.found(f"The value of {key} stands in the file as it is", key, suggestion)
        elif value and secrets_in_url(value):
            suggestion = (
                "REST shows this key. Write the secret in a key of its own, or as ${file:/path/to/secrets.properties:key}."
            )
            yield codes.PLAIN_SECRET.found(f"The URL in {key} holds a secret", key, suggestion)


_RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    _errors,
    _tasks,
    _topics,
    _exactly_once,
    _topic_creation,
    _overrides,
    check_shapes,
    _secrets,
)

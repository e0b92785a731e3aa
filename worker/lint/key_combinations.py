"""Finds combinations of valid keys that lose records, duplicate records, or have no effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from connect.config.finding import Finding
from connect.errors import ConfigError
from worker.config.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.config.secrets import is_secret_name, secrets_in_url
from worker.kafka.topic_creation import topic_creation_rules
from worker.lint import codes
from worker.lint.context import LintContext
from worker.lint.provider_references import has_reference
from worker.lint.record_shapes import check_shapes
from worker.validation.plugin_index import PluginType
from worker.validation.sink_checks import DLQ_TOPIC, parse_topics

_INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_WORKER_TOPICS = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_SOURCE_DLQ = SOURCE_DEAD_LETTER_KEYS[0].name


def check_combinations(context: LintContext) -> Iterator[Finding]:
    """Yields the findings of all rules below."""
    for rule in _RULES:
        yield from rule(context)


def _errors(context: LintContext) -> Iterator[Finding]:
    tolerance = (context.config.get("errors.tolerance") or "none").strip()
    dlq_key = DLQ_TOPIC if context.kind is PluginType.SINK else _SOURCE_DLQ
    has_dlq = bool((context.config.get(dlq_key) or "").strip())
    logs = context.flag("errors.log.enable")
    if tolerance == "all" and not has_dlq and not logs:
        message = "errors.tolerance=all skips errant records without logging them or sending them to a dead letter queue"
        yield codes.RECORDS_VANISH.finding(message, "errors.tolerance", f"Set {dlq_key} or errors.log.enable=true.")
    if tolerance == "none" and has_dlq:
        message = f"The first errant record goes to {dlq_key} and stops the task because errors.tolerance is none"
        yield codes.DLQ_STOPS.finding(message, dlq_key, "Set errors.tolerance=all to continue after it.")
    if context.flag("errors.log.include.messages") and not logs:
        message = "errors.log.include.messages has no effect while errors.log.enable is false"
        yield codes.NO_EFFECT.finding(message, "errors.log.include.messages")
    if not has_dlq and context.kind is PluginType.SINK:
        for key in context.config:
            if key.startswith("errors.deadletterqueue.") and key in context.tables and key not in (DLQ_TOPIC, _SOURCE_DLQ):
                yield codes.NO_EFFECT.finding(f"{key} has no effect without {DLQ_TOPIC}", key)


def _tasks(context: LintContext) -> Iterator[Finding]:
    most = None if context.connector is None else context.connector.most_tasks
    wanted = context.number("tasks.max")
    if most is not None and wanted is not None and wanted > most:
        name = context.class_name.rpartition(".")[2]
        message = f"tasks.max is {wanted}, but {name} never has more than {most}"
        yield codes.TOO_MANY_TASKS.finding(message, "tasks.max")


def _topics(context: LintContext) -> Iterator[Finding]:
    if context.kind is not PluginType.SINK:
        return
    own = {context.worker[key]: key for key in _WORKER_TOPICS if key in context.worker} if context.worker is not None else {}
    for topic in parse_topics(context.config):
        if topic in _INTERNAL_TOPICS or topic in own:
            whose = f"the worker's {own[topic]}" if topic in own else "internal to Kafka"
            yield codes.INTERNAL_TOPIC.finding(f"topics contains {topic}, which is {whose}", "topics")
    regex = context.config.get("topics.regex")
    if regex and not has_reference(regex):
        taken = [topic for topic in (*_INTERNAL_TOPICS, *own) if _matches(regex, topic)]
        if taken:
            yield codes.WIDE_REGEX.finding(f"topics.regex={regex} also matches {', '.join(taken)}", "topics.regex")


def _matches(regex: str, topic: str) -> bool:
    try:
        return re.fullmatch(regex, topic) is not None
    except re.error:
        return False


def _exactly_once(context: LintContext) -> Iterator[Finding]:
    if context.kind is not PluginType.SOURCE:
        return
    if (context.config.get("exactly.once.support") or "").strip().lower() == "required":
        if context.worker is None:
            message = "exactly.once.support=required needs a worker with exactly.once.source.support=enabled"
            yield codes.EXACTLY_ONCE_WORKER.finding(message, "exactly.once.support", "Pass the worker's file to check it.")
        elif context.worker.get("exactly.once.source.support", "").strip().lower() != "enabled":
            message = "exactly.once.support=required, but the worker does not have exactly.once.source.support=enabled"
            yield codes.EXACTLY_ONCE_OFF.finding(message, "exactly.once.support")
    boundary = (context.config.get("transaction.boundary") or "poll").strip().lower()
    if "transaction.boundary.interval.ms" in context.config and boundary != "interval":
        message = f"transaction.boundary.interval.ms has no effect while transaction.boundary is {boundary}"
        yield codes.NO_EFFECT.finding(message, "transaction.boundary.interval.ms", "Set transaction.boundary=interval.")
    if context.config.get("offsets.storage.topic") and context.worker is not None and "group.id" not in context.worker:
        message = "offsets.storage.topic has no effect on a standalone worker, which stores offsets in a file"
        yield codes.NO_EFFECT.finding(message, "offsets.storage.topic")


def _topic_creation(context: LintContext) -> Iterator[Finding]:
    keys = [key for key in context.config if key.startswith("topic.creation.")]
    if context.kind is not PluginType.SOURCE or not keys or any(has_reference(context.config[key]) for key in keys):
        return
    try:
        topic_creation_rules(context.config)
    except ConfigError as e:
        code = (
            codes.MISSING_KEY
            if e.key is not None and e.key not in context.config and "Missing" in e.message
            else codes.INVALID_VALUE
        )
        yield code.finding(e.message, e.key if e.key in context.config else keys[0])
    for group in context.list_of("topic.creation.groups"):
        if group and group != "default" and not context.config.get(f"topic.creation.{group}.include"):
            message = f"The group {group} matches no topic because topic.creation.{group}.include is missing"
            yield codes.NO_EFFECT.finding(message, "topic.creation.groups")
    if context.worker is not None and context.worker.get("topic.creation.enable", "true").strip().lower() == "false":
        yield codes.NO_EFFECT.finding("topic.creation.* has no effect: the worker has topic.creation.enable=false", keys[0])


_UNSAFE_OVERRIDES = (
    ("consumer.override.enable.auto.commit", lambda v: v == "true", "commits offsets of records that are not delivered yet"),
    ("producer.override.acks", lambda v: v not in ("all", "-1"), "acknowledges records that a broker can still lose"),
)
_MOST_IN_FLIGHT = 5
"""Number of batches whose order brokers preserve for idempotent producers."""
_SET_BY_WORKER = (
    "consumer.override.key.deserializer",
    "consumer.override.value.deserializer",
    "producer.override.key.serializer",
    "producer.override.value.serializer",
)


def _overrides(context: LintContext) -> Iterator[Finding]:
    def value(key: str) -> str:
        return (context.config.get(key) or "").strip().lower()

    for key, is_unsafe, what in _UNSAFE_OVERRIDES:
        if value(key) and not has_reference(value(key)) and is_unsafe(value(key)):
            yield codes.UNSAFE_OVERRIDE.finding(f"{key}={context.config[key]} {what}", key)
    in_flight, idempotence = "producer.override.max.in.flight.requests.per.connection", "producer.override.enable.idempotence"
    if value(idempotence) == "false":
        message = f"{idempotence}=false can reorder records when a broker temporarily rejects some"
        yield codes.UNSAFE_OVERRIDE.finding(message, idempotence, "Remove it.")
    elif (context.number(in_flight) or 1) > 1 and value("producer.override.acks") not in ("", "all", "-1"):
        message = f"{in_flight} above 1 can reorder records when a batch is retried"
        yield codes.UNSAFE_OVERRIDE.finding(message, in_flight, "Remove producer.override.acks: idempotence keeps the order.")
    elif (context.number(in_flight) or 1) > _MOST_IN_FLIGHT:
        message = f"{in_flight} above {_MOST_IN_FLIGHT} can reorder records when a batch is retried"
        yield codes.UNSAFE_OVERRIDE.finding(message, in_flight, f"Set it to {_MOST_IN_FLIGHT} or less.")
    for key in _SET_BY_WORKER:
        if key in context.config:
            yield codes.NO_EFFECT.finding(f"{key} has no effect: converters serialize records", key)
    if value("consumer.override.auto.offset.reset") == "latest":
        message = "A new sink skips the records that are already in its topics"
        yield codes.SKIPS_EARLIER.finding(message, "consumer.override.auto.offset.reset")


def _secrets(context: LintContext) -> Iterator[Finding]:
    for key, value in context.config.items():
        table_key = context.tables.get(key)
        is_secret = is_secret_name(key) if table_key is None else table_key.type.value == "PASSWORD"
        if is_secret and value and value.strip() and not has_reference(value):
            suggestion = "Use a config provider: ${file:/path/to/secrets.properties:key}."
            yield codes.PLAIN_SECRET.finding(f"The value of {key} is in the file in plain text", key, suggestion)
        elif value and secrets_in_url(value):
            suggestion = "REST shows this key. Use a separate key for the secret, or ${file:/path/to/secrets.properties:key}."
            yield codes.PLAIN_SECRET.finding(f"The URL in {key} contains a secret", key, suggestion)


_RULES: tuple[Callable[[LintContext], Iterator[Finding]], ...] = (
    _errors,
    _tasks,
    _topics,
    _exactly_once,
    _topic_creation,
    _overrides,
    check_shapes,
    _secrets,
)

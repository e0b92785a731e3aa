"""Checks across several keys of sinks: topics, topics.regex, and the dead letter queue."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigValue
from connect.config.parsing import JAVA_BLANKS, parse_value
from connect.config.types import ConfigType
from connect.java.regex import RegexError, compile_java_regex

DLQ_TOPIC = "errors.deadletterqueue.topic.name"


def check_sink(props: Mapping[str, str | None], values: dict[str, ConfigValue]) -> None:
    """Adds errors unless exactly one of topics and topics.regex is set, and if the sink reads its own dead letter queue."""
    listed, regex, dlq = props.get("topics"), props.get("topics.regex"), dlq_topic(props)
    has_list, has_regex = not _is_blank(listed), not _is_blank(regex)
    if has_list and has_regex:
        message = "topics and topics.regex are mutually exclusive options, but both are set."
        _add_errors(values, ("topics", "topics.regex"), message)
    if not has_list and not has_regex:
        _add_errors(values, ("topics", "topics.regex"), "Must configure one of topics or topics.regex")
    if not dlq:
        return
    if has_list:
        topics = parse_topics(props)
        if dlq in topics:
            shown = f"('topics=[{', '.join(topics)}]')"
            message = f"The DLQ topic '{dlq}' may not be included in the list of topics {shown} consumed by the connector"
            _add_errors(values, ("topics",), message)
    if has_regex and regex is not None and _matches(regex, dlq):
        shown = f"('topics.regex={regex}')"
        message = f"The DLQ topic '{dlq}' may not be matched by the regex for the topics {shown} consumed by the connector"
        _add_errors(values, ("topics.regex",), message)


def dlq_topic(props: Mapping[str, str | None]) -> str:
    """Returns the topic of the dead letter queue, empty if there is none."""
    return (props.get(DLQ_TOPIC) or "").strip(JAVA_BLANKS)


def parse_topics(props: Mapping[str, str | None]) -> list[str]:
    """Returns the listed topics without empty entries and duplicates."""
    parsed = parse_value("topics", props.get("topics"), ConfigType.LIST)
    return list(dict.fromkeys(topic for topic in parsed or () if topic))


def _matches(regex: str, topic: str) -> bool:
    try:
        return compile_java_regex(regex).fullmatch(topic) is not None
    except RegexError:
        return False  # the validator of topics.regex reports it


def _is_blank(text: str | None) -> bool:
    return text is None or not text.strip(JAVA_BLANKS)


def _add_errors(values: dict[str, ConfigValue], names: tuple[str, ...], message: str) -> None:
    for name in names:
        values.setdefault(name, ConfigValue(name)).errors.append(message)

"""Runs records through a connector's transformations for the web page and ``POST /sluice/preview``: what each stage changes.

Runs in an executor, because it loads the connector's plugins. The answer is plain data, bounded in size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from connect.connector import SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError, DataError
from connect.plugins import Plugins
from connect.record import ConnectRecord, SourceRecord
from connect.record_format import record_to_json
from worker.model import PreviewRequest
from worker.preview.conversion import Message, PreviewConverters, has_converters
from worker.preview.errors import CONFIGURE, READ, PreviewFailure, build_failure
from worker.preview.plan import first_topic, is_sink
from worker.preview.record_diff import FieldChange, FieldValue, diff_records, flatten_record
from worker.preview.record_lines import RecordDefaults, parse_record
from worker.preview.transform_runner import Outcome, TransformRunner

_MAX_FIELDS = 500
_MAX_TEXT = 2000

GIVEN, TOPIC, SAMPLES = "given", "topic", "connector"
"""Where records come from: the request, a topic, or the connector's own samples."""

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TopicMessages:
    """Messages of a topic for a preview, with the offset of each."""

    messages: Sequence[tuple[int, Message]]
    skipped: int
    """Messages left out because they are too large."""


ReadTopic = Callable[[str, int], TopicMessages]
"""Reads about so many of the last messages of a topic."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    kind: str
    topic: str | None
    records: Sequence[ConnectRecord | PreviewFailure]
    skipped: int = 0


def preview_stages(
    config: Mapping[str, str | None], worker: Mapping[str, str], plugins: Plugins, request: PreviewRequest, read_topic: ReadTopic
) -> Plain:
    """Returns the records before and after each stage; see docs/rest.md for the form.

    Errors of records, and of transformations that cannot be created, are part of the result. Raises BadRequestError if there are
    no records to run, and the errors of ``read_topic``.
    """
    inputs = _inputs(config, worker, plugins, request, read_topic)
    source = {"kind": inputs.kind, "topic": inputs.topic, "skipped": inputs.skipped}
    try:
        runner = TransformRunner(config, plugins)
    except ConnectError as e:
        failure = build_failure(e, CONFIGURE, _alias_of(e))
        return {"source": source, "error": failure.as_json(), "records": [_shown(one, None, None) for one in inputs.records]}
    with closing(runner):
        if is_sink(config, plugins) or not has_converters(config, worker):
            return {"source": source, "error": None, "records": [_shown(one, runner, None) for one in inputs.records]}
        with closing(PreviewConverters(config, worker, plugins)) as converters:
            return {"source": source, "error": None, "records": [_shown(one, runner, converters) for one in inputs.records]}


def _inputs(
    config: Mapping[str, str | None], worker: Mapping[str, str], plugins: Plugins, request: PreviewRequest, read_topic: ReadTopic
) -> _Inputs:
    sink = is_sink(config, plugins)
    topic = request.topic or first_topic(config)
    if request.records is not None:
        defaults = RecordDefaults(topic or "records", sink)
        return _Inputs(GIVEN, None, [_parsed(node, defaults, at) for at, node in enumerate(request.records)])
    if request.topic is None and not sink and (samples := _samples(config, plugins, request.limit)):
        return _Inputs(SAMPLES, None, samples)
    if topic is None:
        raise BadRequestError(
            "There are no records to run: this connector has no samples of its own. Give records, or the name of a topic"
        )
    found = read_topic(topic, request.limit)
    with closing(PreviewConverters(config, worker, plugins)) as converters:
        records = [converters.read(message, offset) for offset, message in found.messages]
    if not sink:
        records = [_as_source_record(record) for record in records]
    return _Inputs(TOPIC, topic, records, found.skipped)


def _samples(config: Mapping[str, str | None], plugins: Plugins, count: int) -> Sequence[SourceRecord]:
    name = config.get("connector.class")
    connector = plugins.new_connector(name) if name else None
    if not isinstance(connector, SourceConnector):
        return ()
    try:
        return connector.sample_records({key: value for key, value in config.items() if value is not None}, count)
    except ConfigError as e:
        raise BadRequestError(f"The connector cannot generate sample records: {e.message}") from e


def _parsed(node: Any, defaults: RecordDefaults, at: int) -> ConnectRecord | PreviewFailure:
    try:
        return parse_record(node, defaults, at)
    except DataError as e:
        return build_failure(DataError(f"record {at + 1}: {e.message}"), READ)


def _as_source_record(record: ConnectRecord | PreviewFailure) -> ConnectRecord | PreviewFailure:
    if isinstance(record, PreviewFailure):
        return record
    data = record.key_schema, record.key, record.value_schema, record.value
    return SourceRecord({}, {}, record.topic, None, *data, record.timestamp, record.headers)


def _alias_of(error: ConnectError) -> str | None:
    key = error.key if isinstance(error, ConfigError) else None
    return key.split(".")[1] if key is not None and key.startswith("transforms.") else None


def _shown(given: ConnectRecord | PreviewFailure, runner: TransformRunner | None, converters: PreviewConverters | None) -> Plain:
    """One record: its fields, what each stage changes, and how it ends."""
    if isinstance(given, PreviewFailure):
        return {"input": None, "fields": [], "stages": [], "result": None, "dropped": False, "error": given.as_json()}
    before = flatten_record(given)
    outcome = Outcome(given) if runner is None else runner.apply(given, with_steps=True)
    stages, after = [], before
    for step in outcome.steps:
        changes: list[FieldChange] = []
        if step.record is not None and step.ran:
            fields = flatten_record(step.record)
            changes, after = diff_records(after, fields), fields
        stages.append(
            {
                "transform": step.alias,
                "class": step.transformation,
                "predicate": step.predicate,
                "ran": step.ran,
                "changes": [_change(one) for one in changes[:_MAX_FIELDS]],
            }
        )
    failure = outcome.failure
    if failure is None and outcome.record is not None and converters is not None:
        written = converters.write(outcome.record)
        failure = written if isinstance(written, PreviewFailure) else None
    return {
        "input": _as_json(given),
        "fields": _fields(before),
        "stages": stages,
        "result": None if outcome.record is None else _fields(after),
        "dropped": outcome.record is None and outcome.failure is None,
        "error": None if failure is None else failure.as_json(),
    }


def _as_json(record: ConnectRecord) -> Plain | None:
    """The record in the format in which it can be given; None if JSON cannot express it."""
    try:
        return record_to_json(record)
    except DataError:  # a connector may produce any type
        return None


def _fields(fields: Mapping[str, FieldValue]) -> list[Plain]:
    return [{"path": path, **_value(field)} for path, field in list(fields.items())[:_MAX_FIELDS]]


def _change(change: FieldChange) -> Plain:
    sides = {"before": change.before, "after": change.after}
    return {"path": change.path, **{name: None if side is None else _value(side) for name, side in sides.items()}}


def _value(field: FieldValue) -> Plain:
    text = field.text if len(field.text) <= _MAX_TEXT else f"{field.text[:_MAX_TEXT]}…"
    return {"type": field.kind, "value": text}

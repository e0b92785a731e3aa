"""Transformations that change dead letters before they are replayed: those of the request, not of the connector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.data.headers import Header
from connect.errors import ConfigError, ConnectError, DataError
from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.record_format import record_to_json
from connect.strict import strict_settings
from worker.config.secrets import SecretMask
from worker.dead_letters.letters import PREFIX, DeadLetter, is_source_queue
from worker.dead_letters.records import copy_whole, mask_failure, read_record
from worker.dead_letters.registered_schemas import RegisteredSchemaWriters
from worker.dead_letters.requests import CONVERTERS
from worker.preview.conversion import HEADER, KEY, VALUE, PreviewConverters
from worker.preview.errors import PreviewFailure, build_failure
from worker.preview.transform_runner import TransformRunner


@dataclass(frozen=True, slots=True)
class ChangedLetter:
    """The result for one dead letter."""

    letter: DeadLetter | None
    """As it is to be replayed: at its place in the queue, with the new contents. None if it must not be replayed."""
    before: ConnectRecord | None
    after: ConnectRecord | None = None
    failure: PreviewFailure | None = None
    dropped_by: str | None = None
    """The alias of the transformation that drops it."""


class LetterTransforms:
    """The transformations of one replay. Runs code of plugins. Close after use."""

    def __init__(
        self,
        transforms: Mapping[str, str],
        config: Mapping[str, str | None],
        worker: Mapping[str, str] | None,
        plugins: Plugins,
        mask: SecretMask,
    ) -> None:
        """``transforms`` are the keys of the chain, and of converters that replace those of the connector's configuration. Raises
        ConfigError for invalid settings."""
        self._mask = mask
        chain = {key: value for key, value in transforms.items() if not key.startswith(CONVERTERS)}
        try:
            self._runner = TransformRunner({**chain, **strict_settings(config)}, plugins)
            try:
                converters = _with_converters(config, transforms)
                self._converters = None if is_source_queue(config) else PreviewConverters(converters, worker, plugins)
                self._writers = RegisteredSchemaWriters(converters, worker, plugins)
            except BaseException:
                self._runner.close()
                raise
        except ConnectError as e:
            raise ConfigError(mask.mask(f"The transformations of the replay: {e.message}")) from e

    def apply(self, letter: DeadLetter) -> ChangedLetter:
        """Returns the dead letter with what the transformations change. Never raises for an errant record.

        Keys, values, and headers that they do not change keep their bytes.
        """
        given = read_record(letter, self._converters)
        if isinstance(given, PreviewFailure):
            return ChangedLetter(None, None, failure=mask_failure(given, self._mask))
        # A transformation may change the record that it gets.
        before = copy_whole(given)
        # Its parts are compared by identity: equal values may be written in another way, such as 1 and 1.0.
        key, value, headers = (given.key_schema, given.key), (given.value_schema, given.value), tuple(given.headers or ())
        outcome = self._runner.apply(given, with_steps=True)
        after = outcome.record
        if after is None:
            dropped_by = None if outcome.dropped_by is None else outcome.dropped_by.alias
            failed = None if outcome.failure is None else mask_failure(outcome.failure, self._mask)
            return ChangedLetter(None, before, failure=failed, dropped_by=dropped_by)
        if self._converters is None:
            changed = _source_letter(letter, after)
        else:
            kept = {
                KEY: _is_same(key, (after.key_schema, after.key)) and before.key == after.key,
                VALUE: _is_same(value, (after.value_schema, after.value)) and before.value == after.value,
            }
            changed = _sink_letter(letter, before, after, kept, headers, self._converters, self._writers)
        if isinstance(changed, PreviewFailure):
            return ChangedLetter(None, before, failure=mask_failure(changed, self._mask))
        return ChangedLetter(changed, before, after)

    def close(self) -> None:
        self._runner.close()
        self._writers.close()
        if self._converters is not None:
            self._converters.close()


def _with_converters(config: Mapping[str, str | None], transforms: Mapping[str, str]) -> dict[str, str | None]:
    """The connector's configuration, with the converters that the replay replaces, of which each is complete."""
    replaced = tuple(role for role in CONVERTERS if role in transforms)
    kept = {key: value for key, value in config.items() if not (replaced and key.startswith(replaced))}
    return {**kept, **{key: value for key, value in transforms.items() if key.startswith(CONVERTERS)}}


def _is_same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return one[0] is other[0] and one[1] is other[1]


def _source_letter(letter: DeadLetter, after: ConnectRecord) -> DeadLetter | PreviewFailure:
    try:
        value = json.dumps(record_to_json(after), ensure_ascii=False).encode()
    except (DataError, ValueError) as e:
        return build_failure(e, VALUE)
    return replace(letter, stored=letter.stored._replace(value=value))


def _sink_letter(
    letter: DeadLetter,
    before: ConnectRecord,
    after: ConnectRecord,
    kept: Mapping[str, bool],
    headers: tuple[Header, ...],
    converters: PreviewConverters,
    writers: RegisteredSchemaWriters,
) -> DeadLetter | PreviewFailure:
    stored, role = letter.stored, KEY
    original = letter.original_headers
    data = {id(header): one for header, one in zip(headers, original, strict=True)}
    try:
        key, value = stored.key, stored.value
        if not kept[KEY]:
            key = writers.encode(KEY, before, after, key) or converters.encode_part(KEY, after)
        role = VALUE
        if not kept[VALUE]:
            value = writers.encode(VALUE, before, after, value) or converters.encode_part(VALUE, after)
        role = HEADER
        written = [data.get(id(one)) or (one.key, converters.encode_header(after.topic, one)) for one in after.headers or ()]
    except Exception as e:
        return build_failure(e, role)
    at_ms = stored.timestamp_ms if after.timestamp == before.timestamp else after.timestamp
    context_headers = [one for one in stored.headers if one[0].startswith(PREFIX)]
    context = letter.context
    if after.topic != before.topic or after.partition != before.partition:
        partition = before.partition if after.partition is None else after.partition
        context = replace(context, topic=after.topic, partition=str(partition))
    return DeadLetter(stored._replace(key=key, value=value, timestamp_ms=at_ms, headers=[*context_headers, *written]), context)

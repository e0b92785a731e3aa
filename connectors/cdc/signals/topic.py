"""Signals in a topic, as Debezium's Kafka signal channel reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from connect.source import TopicReader
from connectors.cdc.signals.actions import Signal, parse_json_signal
from connectors.cdc.streaming.offset_extras import OffsetExtras

log = logging.getLogger(__name__)

_TOPIC, _POSITION = "signal_topic", "signal_topic_position"
"""Our own keys in offsets: the topic, and the offset of the next signal in it."""


def stored_position(offset: Mapping[str, Any], topic: str) -> int | None:
    """The position in a topic that a stored offset says; None if it says none, or that of another topic."""
    position = offset.get(_POSITION)
    return int(position) if position is not None and offset.get(_TOPIC) == topic else None


class SignalTopic:
    """Reads signals whose key is ``topic.prefix`` from the first partition of a topic.

    The position is part of the connector's offsets, like the snapshots that signals have asked for, so that after a crash neither
    is a signal lost nor run again. The consumer group gets the position once it is stored: that is where Debezium would continue.
    """

    def __init__(self, reader: TopicReader, topic: str, prefix: str, extras: OffsetExtras, position: int | None) -> None:
        """``position`` is that of the stored offset, if there is one."""
        self._reader = reader
        self._topic = topic
        self._key = prefix.encode()
        self._extras = extras
        self._committed = position
        if position is not None:
            self._store(position)

    def _store(self, position: int) -> None:
        self._extras.set_offset_extras(self, {_TOPIC: self._topic, _POSITION: position})

    def read(self) -> list[Signal]:
        """Returns the signals that have arrived. Those that cannot be read are logged."""
        records = self._reader.read()
        if not records:
            return []
        self._store(records[-1].offset + 1)
        found = []
        for record in records:
            if record.key != self._key:
                log.info("a signal at offset %d of topic %s is for another connector", record.offset, self._topic)
            elif record.value:
                signal = parse_json_signal(record.value, f"{self._topic}-{record.offset}")
                found += [] if signal is None else [signal]
        return found

    def offsets_stored(self, offsets: Iterable[Mapping[str, Any]]) -> None:
        """Offsets are durable."""
        for offset in offsets:
            if (position := stored_position(offset, self._topic)) is not None and position != self._committed:
                self._committed = position
                self._reader.commit(position)

    def close(self) -> None:
        self._reader.close()

"""The channels of signals besides the signal table: file, topic, and REST."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from connect.source import SourceTaskContext
from connectors.cdc.config.signal_keys import SignalSettings
from connectors.cdc.signals.actions import Signal
from connectors.cdc.signals.file import SignalFile
from connectors.cdc.signals.topic import SignalTopic, stored_position
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.cdc.streaming.offset_tracker import OffsetPairs


class SignalChannels:
    """Collects signals. Their positions are part of offsets."""

    def __init__(self, settings: SignalSettings, topic_prefix: str, extras: OffsetExtras) -> None:
        self._settings = settings
        self._prefix = topic_prefix
        self._extras = extras
        self._channels: list[SignalFile | SignalTopic] = []
        self._received: deque[Signal] = deque()
        self._next_poll = 0.0

    def open(self, context: SourceTaskContext, stored: Mapping[str, Any]) -> None:
        """Opens the file and the topic if they are enabled, and continues where the stored offset says. Raises ConfigError."""
        if "file" in self._settings.channels:
            self._channels.append(SignalFile(self._settings.file, self._extras, stored))
        topic = self._settings.topic
        if "kafka" in self._settings.channels:
            position = stored_position(stored, topic.name)
            reader = context.open_topic(topic.name, topic.consumer, position)
            self._channels.append(SignalTopic(reader, topic.name, self._prefix, self._extras, position))

    def receive(self, signal: Signal) -> None:
        """Takes note of a signal; safe from any thread."""
        self._received.append(signal)

    def take(self) -> list[Signal]:
        """Returns the signals that have arrived. Channels are read once per ``signal.poll.interval.ms``."""
        found: list[Signal] = []
        if self._channels and time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + self._settings.poll_interval_s
            for channel in self._channels:
                found += channel.read()
        while self._received:
            found.append(self._received.popleft())
        return found

    def offsets_stored(self, offsets: OffsetPairs) -> None:
        """Offsets are durable."""
        for channel in self._channels:
            channel.offsets_stored([offset for _, offset in offsets])

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

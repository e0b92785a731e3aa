"""Source offsets in the index of a spool (:class:`worker.storage.offset_store.OffsetStore`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from connect.errors import ConnectError, UnsupportedError
from connect.spool.index import Offsets
from connect.spool.writer import SpoolWriter
from worker.model import OffsetEntry
from worker.storage.offset_codec import decode_key, decode_value, encode_key, encode_value
from worker.storage.offset_store import OffsetPair


def encode_offsets(connector: str, offsets: Iterable[OffsetPair]) -> dict[str, str | None]:
    """Returns source offsets as the index stores them. Raises DataError for values that are not flat."""
    found = {}
    for partition, offset in offsets:
        value = encode_value(offset)
        found[encode_key(connector, partition).decode()] = None if value is None else value.decode()
    return found


def decode_offsets(offsets: Offsets) -> list[OffsetPair]:
    """Returns what :func:`encode_offsets` was given."""
    found: list[OffsetPair] = []
    for key, value in offsets.items():
        parsed = decode_key(key.encode())
        if parsed is None:
            raise ConnectError(f"the index of the spool has a source partition that is not readable: {key[:200]}")
        found.append((parsed.partition, decode_value(None if value is None else value.encode())))
    return found


class SpoolOffsetStore:
    """Reads the offsets of the spool's end. Only segments store offsets. Safe from any thread."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer = writer

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        found = self._writer.offsets().get(encode_key(connector, partition).decode())
        return decode_value(None if found is None else found.encode())

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        raise UnsupportedError(f"the source offsets of connector {connector} change with the segments of its spool only")

    def entries(self, connector: str) -> list[OffsetEntry]:
        return [OffsetEntry(*pair) for pair in decode_offsets(self._writer.offsets()) if pair[1] is not None]

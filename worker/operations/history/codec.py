"""Versions as records of the history topic: key ``["<connector>",<version>]``, value a JSON object, compact. Pure.

Each version is a separate record, so that compaction retains it; a version that is dropped becomes a tombstone.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from connect.errors import DataError
from worker.model import ConfigVersion, Origin


class VersionKey(NamedTuple):
    connector: str
    version: int


def encode_key(connector: str, version: int) -> bytes:
    return orjson.dumps([connector, version])


def encode_value(version: ConfigVersion) -> bytes:
    config = None if version.config is None else dict(version.config)
    return orjson.dumps({"at": version.at_ms, "origin": version.origin.value, "config": config})


def decode_key(data: bytes | None) -> VersionKey:
    """Decodes a key. Raises DataError for another format."""
    match _loads(data, "key"):
        case [str(connector), int(version)] if version > 0:
            return VersionKey(connector, version)
    raise DataError(f"the key {(data or b'')[:80]!r} is not [connector, version]")


def decode_value(number: int, data: bytes) -> ConfigVersion:
    """Decodes a value. Raises DataError for another format. Unknown origins, of a later release, become CLUSTER."""
    match _loads(data, "value"):
        case {"at": int(at_ms), "origin": str(origin), "config": dict() | None as config}:
            if config is None or all(isinstance(value, str | None) for value in config.values()):
                known = {one.value: one for one in Origin}
                return ConfigVersion(number, at_ms, known.get(origin, Origin.CLUSTER), config)
    raise DataError("the value is not an object with at, origin and config")


def _loads(data: bytes | None, what: str) -> object:
    try:
        return orjson.loads(data or b"")
    except orjson.JSONDecodeError as e:
        raise DataError(f"the {what} is not JSON: {e}") from e

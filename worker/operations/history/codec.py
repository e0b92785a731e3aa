"""Versions as records of the history topic: key ``["<connector>",<version>]``, value a JSON object, compact. Pure.

A version is a record of its own, so that compaction keeps each, and one that gives way is a tombstone.
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
    """Raises DataError for a key of another shape."""
    match _loads(data, "key"):
        case [str(connector), int(version)] if version > 0:
            return VersionKey(connector, version)
    raise DataError(f"the key {(data or b'')[:80]!r} is not [connector, version]")


def decode_value(number: int, data: bytes) -> ConfigVersion:
    """Raises DataError for a value of another shape. An origin of a later release counts as the cluster's."""
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

"""Writes changed records with the schemas of a registry that they had before, so that nothing needs to be registered."""

from __future__ import annotations

from collections.abc import Mapping

from connect.converters.api import Converter
from connect.plugins import Plugins
from connect.record import ConnectRecord
from worker.preview.conversion import KEY
from worker.tasks.converters import converter_settings

_URL = "schema.registry.url"
_MAGIC, _PREFIX_BYTES = 0, 5
_MAX_WRITERS = 100


class RegisteredSchemaWriters:
    """Converters by role and schema ID. Close after use.

    A converter derives the schema to write from that of the record, which says more after reading: it would register a new
    version for each subject.
    """

    def __init__(self, config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins) -> None:
        self._config = config
        self._worker = worker or {}
        self._plugins = plugins
        self._writers: dict[tuple[str, int], Converter] = {}

    def encode(self, role: str, before: ConnectRecord, after: ConnectRecord, data: bytes | None) -> bytes | None:
        """Returns the key or the value of ``after`` with the schema of ``data``, which is that of ``before``.

        None if it has none or another one, and if what was written would be read in another way.
        """
        given = before.key_schema if role == KEY else before.value_schema
        schema, value = (after.key_schema, after.key) if role == KEY else (after.value_schema, after.value)
        if value is None or data is None or len(data) <= _PREFIX_BYTES or data[0] != _MAGIC or schema != given:
            return None
        found = converter_settings(role, self._config, self._worker)
        if found is None or not found[1].get(_URL):
            return None
        try:
            writer = self._writer(role, int.from_bytes(data[1:_PREFIX_BYTES], "big"), *found)
            written = writer.from_connect_data(before.topic, schema, value, after.headers)
            read = writer.to_connect_data(before.topic, written, after.headers)
        except Exception:
            return None  # the connector's converter says what is wrong, or writes another schema
        return written if (read.schema, read.value) == (schema, value) else None

    def _writer(self, role: str, schema_id: int, name: str, settings: Mapping[str, str]) -> Converter:
        found = self._writers.get((role, schema_id))
        if found is None:
            if len(self._writers) >= _MAX_WRITERS:
                self.close()
            found = self._plugins.new_converter(name)
            own = {"auto.register.schemas": "false", "use.schema.id": str(schema_id)}
            found.configure({**settings, **own}, role == KEY)
            self._writers[role, schema_id] = found
        return found

    def close(self) -> None:
        """Closes the converters. Others are created if needed."""
        while self._writers:
            self._writers.popitem()[1].close()

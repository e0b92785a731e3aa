"""The converters of a task, and which class and settings a config gives each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.converters.api import Converter, HeaderConverter
from connect.strict import strict_settings


@dataclass(frozen=True, slots=True)
class Converters:
    """The converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter

    @property
    def want_headers(self) -> bool:
        """Whether key or value cannot be converted without the record's headers."""
        return self.key.wants_headers or self.value.wants_headers

    def close(self) -> None:
        for converter in (self.key, self.value, self.header):
            converter.close()


def converter_settings(
    role: str, config: Mapping[str, str | None], worker: Mapping[str, str]
) -> tuple[str, dict[str, str]] | None:
    """Class and settings for ``key.converter``, ``value.converter`` or ``header.converter``: the connector's own, or else the
    worker's with the worker's settings. They are never mixed, as in Kafka Connect. None when neither names a converter."""
    for source in (config, worker):
        if name := source.get(role):
            prefix = f"{role}."
            below = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
            return name, {**{key: value for key, value in below.items() if value is not None}, **strict_settings(config)}
    return None

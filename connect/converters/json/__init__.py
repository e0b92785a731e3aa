"""JSON with or without schemas, as Apache's JsonConverter reads and writes it."""

from connect.converters.json.converter import JsonConverter

__all__ = ["JsonConverter"]

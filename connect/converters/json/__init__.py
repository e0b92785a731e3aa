"""Apache's JsonConverter: JSON with or without schemas."""

from connect.converters.json.converter import JsonConverter

__all__ = ["JsonConverter"]

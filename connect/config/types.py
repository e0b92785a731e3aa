"""The types a configuration value can have: Kafka's nine."""

from __future__ import annotations

from enum import Enum


class ConfigType(Enum):
    """Names as REST shows them. PASSWORD is the secret type: its text is never printed."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"

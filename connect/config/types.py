"""The types of configuration values: Kafka's nine."""

from __future__ import annotations

from enum import Enum


class ConfigType(Enum):
    """The type of a configuration value, named as in REST. PASSWORD is the type of secrets, which are never printed."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"

"""Which connector is emulated: Confluent's and Aiven's have the same origin but differ in keys, defaults, and rules.

Each flavor of a connector is a class of its own (``JdbcSink`` and ``AivenJdbcSink``) with its own Java name, because the
worker asks for the ConfigDef before there is a config. The classes, and those of their tasks, differ only in their ``flavor``
attribute. Both flavors accept the keys of either; the rules are those of the flavor.
"""

from __future__ import annotations

from enum import Enum


class ConnectorFlavor(Enum):
    """``value`` is the Java package of the emulated connector."""

    CONFLUENT = "io.confluent.connect.jdbc"
    """Also the flavor of classes that are configured by a Sluice name."""
    AIVEN = "io.aiven.connect.jdbc"

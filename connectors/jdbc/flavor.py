"""Whose connector ours stands in for: Confluent's and Aiven's have the same origin, and differ in keys, defaults and rules.

Each face of a connector is a class of its own (``JdbcSink`` and ``AivenJdbcSink``), under its Java name in the table of plugins:
the table of keys is asked for before there is a configuration. The classes share everything and have ``face`` as an attribute, as
have their task classes. Every key of either face is read under both, and the rules are those of the face.
"""

from __future__ import annotations

from enum import Enum


class ConnectorFlavor(Enum):
    """``value`` is the Java package of the original."""

    CONFLUENT = "io.confluent.connect.jdbc"
    """Also of the classes under names of our own."""
    AIVEN = "io.aiven.connect.jdbc"

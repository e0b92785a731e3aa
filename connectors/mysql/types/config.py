"""The typed settings of values."""

from __future__ import annotations

from dataclasses import dataclass

from connect.change_events.toast import UNAVAILABLE_VALUE


@dataclass(frozen=True, slots=True)
class MySqlTypeSettings:
    """How column types are mapped to schemas. Modes have Debezium's names."""

    decimal_mode: str = "precise"
    """``decimal.handling.mode``: precise, string, or double."""
    time_mode: str = "adaptive_time_microseconds"
    """``time.precision.mode``: adaptive_time_microseconds, adaptive, connect, isostring, microseconds, nanoseconds, or
    structured."""
    binary_mode: str = "bytes"
    """``binary.handling.mode``: bytes, base64, base64-url-safe, or hex."""
    unsigned_bigint_mode: str = "long"
    """``bigint.unsigned.handling.mode``: long or precise."""
    adjusts_years: bool = True
    """``enable.time.adjuster``: dates of the years 1 to 69 are in 2001 to 2069, those of 70 to 99 in 1970 to 1999."""
    placeholder: str = UNAVAILABLE_VALUE
    """``unavailable.value.placeholder``."""
    includes_comments: bool = False
    """``include.schema.comments``: comments of columns are documentation of fields."""

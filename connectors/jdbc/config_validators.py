"""Validators and recommenders for keys of the JDBC source and sinks."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.config.definition import Recommender
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from connect.suggestions import did_you_mean

DIALECTS = (
    "", "Db2DatabaseDialect", "MySqlDatabaseDialect", "SybaseDatabaseDialect", "GenericDatabaseDialect", "OracleDatabaseDialect",
    "SqlServerDatabaseDialect", "PostgreSqlDatabaseDialect", "SqliteDatabaseDialect", "DerbyDatabaseDialect",
    "SapHanaDatabaseDialect", "VerticaDatabaseDialect",
)  # fmt: skip
"""Confluent's dialect names, in the order of its recommender."""

_BACKENDS: Mapping[str, tuple[str, ...]] = {
    "Db2DatabaseDialect": ("db2", "ibm_db_sa"),
    "MySqlDatabaseDialect": ("mysql", "mariadb"),
    "SybaseDatabaseDialect": ("sybase",),
    "OracleDatabaseDialect": ("oracle",),
    "SqlServerDatabaseDialect": ("mssql",),
    "PostgreSqlDatabaseDialect": ("postgresql",),
    "SqliteDatabaseDialect": ("sqlite",),
    "DerbyDatabaseDialect": ("derby",),
    "SapHanaDatabaseDialect": ("hana",),
    "VerticaDatabaseDialect": ("vertica",),
}
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
PLACEHOLDERS = ("table", "schema", "catalog")


def check_dialect(name: str, backend: str) -> None:
    """Raises ConfigError if ``dialect.name`` is for another database than the URL. The generic dialect fits all."""
    expected = _BACKENDS.get(name)
    if expected is not None and backend not in expected:
        raise ConfigError.invalid(
            "dialect.name", name, f"connection.url is for {backend}; remove dialect.name, because the URL determines the dialect"
        )


@dataclass(frozen=True, slots=True)
class NameChoice:
    """One of these names as written or in other case; null is allowed."""

    values: Sequence[str]
    empty: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None or (self.empty and not value.strip()):
            return
        if value not in self.values and value.lower() not in self.values:
            known = [one for one in self.values if one]
            raise ConfigError.invalid(name, value, did_you_mean(value, known) or f"expected one of {', '.join(known)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class QuoteMode:
    """``always`` or ``never``, in any case; null is allowed."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and value.lower() not in ("always", "never"):
            raise ConfigError.invalid(name, value, "expected always or never")

    def __str__(self) -> str:
        return "[always, never]"


@dataclass(frozen=True, slots=True)
class TextPattern:
    """Text that matches a pattern."""

    pattern: str
    rule: str

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and not re.fullmatch(self.pattern, value):
            raise ConfigError.invalid(name, value, self.rule)

    def __str__(self) -> str:
        return self.rule


@dataclass(frozen=True, slots=True)
class JavaRegexList:
    """A list of Java regular expressions."""

    def __call__(self, name: str, value: Any) -> None:
        for part in value or ():
            compile_pattern(name, part)

    def __str__(self) -> str:
        return "list of regular expressions"


def compile_pattern(key: str, text: str) -> re.Pattern[str]:
    """Compiles a Java regular expression. Raises ConfigError that names the key."""
    try:
        return compile_java_regex(text)
    except RegexError as e:
        raise ConfigError.invalid(key, text, f"not a regular expression: {e}") from e


@dataclass(frozen=True, slots=True)
class TimeZoneName:
    """A time zone: region (Europe/Berlin), UTC, or offset (+02:00)."""

    def __call__(self, name: str, value: Any) -> None:
        if value is not None:
            parse_zone(name, value)

    def __str__(self) -> str:
        return "time zone"


def parse_zone(key: str, text: str) -> dt.tzinfo:
    """Parses the name of a time zone. Raises ConfigError."""
    offset = _OFFSET.fullmatch(text.strip())
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes <= 18 * 60:
            return dt.timezone(dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    name = "UTC" if text.strip() in ("Z", "GMT", "UT", "UTC") else text.strip()
    try:
        return dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(name, zoneinfo.available_timezones(), "; ")
        reason = f"expected a region (Europe/Berlin) or an offset from UTC (+02:00){hint}"
        raise ConfigError.invalid(key, text, reason) from None


@dataclass(frozen=True, slots=True)
class TopicFormat:
    """Text with ${table}, ${schema} and ${catalog}."""

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            raise ConfigError.invalid(name, value, "expected text with ${table}")
        unknown = [found for found in _PLACEHOLDER.findall(value) if found not in PLACEHOLDERS]
        if unknown:
            raise ConfigError.invalid(
                name, value, f"${{{unknown[0]}}} is unknown; expected ${{table}}, ${{schema}} or ${{catalog}}"
            )

    def __str__(self) -> str:
        return "text with ${table}, ${schema}, ${catalog}"


@dataclass(frozen=True, slots=True)
class SnapshotChunks:
    """``off``, ``auto``, or a number of rows."""

    def __call__(self, name: str, value: Any) -> None:
        if value in ("off", "auto") or (value is not None and value.isdecimal() and int(value) > 0):
            return
        raise ConfigError.invalid(name, value, "expected off, auto, or the number of rows per chunk")

    def __str__(self) -> str:
        return "[off, auto, <rows>]"


class UnsetScale:
    """A number of decimal places, ``double`` or ``string``."""

    def __call__(self, name: str, value: Any) -> None:
        if value in ("double", "string") or (value is not None and value.isdecimal() and int(value) <= 127):
            return
        raise ConfigError.invalid(name, value, "expected a number of decimal places (0 to 127), double or string")

    def __str__(self) -> str:
        return "[<places>, double, string]"


@dataclass(frozen=True, slots=True)
class SuggestedValues(Recommender):
    """Always recommends the same values."""

    values: Sequence[str]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return list(self.values)


class ModeVisibility(Recommender):
    """Shows a key only in the modes that use it."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        mode = parsed.get("mode")
        if not mode:
            return True
        if name == "incrementing.column.name":
            return "incrementing" in mode
        if name == "timestamp.column.name":
            return "timestamp" in mode
        return bool(mode != "bulk")

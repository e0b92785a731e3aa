"""Entries of ``partition.columns``: columns, and transforms of columns."""

from __future__ import annotations

import re

from connect.errors import ConfigError

PARTITION_COLUMNS = "partition.columns"
BUCKET, TRUNCATE = "bucket", "truncate"
UNITS = ("year", "month", "day", "hour")

_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)


def parse_term(text: str) -> tuple[str, str]:
    """Column and transform of an entry, as Iceberg's specs name it: ``c``, ``days(c)``, ``bucket(c, 16)``, and so on.

    Raises ConfigError.
    """
    found = _CALL.fullmatch(text.strip())
    if found is None:
        return text.strip(), "identity"
    name, arguments = found.group(1).lower(), [part.strip() for part in found.group(2).split(",")]
    if name.removesuffix("s") in UNITS and len(arguments) == 1:
        return arguments[0], name.removesuffix("s")
    if name in (BUCKET, TRUNCATE) and len(arguments) == 2:
        column, width = arguments if arguments[1].isdecimal() else reversed(arguments)
        if width.isdecimal() and int(width) > 0:
            return column, f"{name}[{int(width)}]"
    raise ConfigError.invalid(
        PARTITION_COLUMNS,
        text,
        "Expected a column, or years(c), months(c), days(c), hours(c), bucket(c, count), or truncate(c, width) of a column",
    )

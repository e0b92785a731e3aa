"""The databases that every server of MySQL or MariaDB has."""

from __future__ import annotations

from typing import Final

BUILT_IN_DATABASES: Final = ("information_schema", "mysql", "performance_schema", "sys")
"""In lower case."""

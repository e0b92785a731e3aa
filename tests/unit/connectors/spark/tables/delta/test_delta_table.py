"""The sessions of Delta tables."""

from __future__ import annotations

from typing import Any

from connectors.spark.tables.delta.delta_table import DeltaTable


class Session:
    """A session with settings of a user."""

    def __init__(self) -> None:
        self.conf = self
        self.settings = {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.variable.substitute": "true"}

    def get(self, key: str) -> str | None:
        return self.settings.get(key)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value


def test_statements_of_a_table_mean_what_they_say_whatever_the_settings() -> None:
    found: list[dict[str, str]] = []

    def open_table(session: Any) -> Any:
        found.append(dict(session.settings))

    new_session: Any = Session
    DeltaTable("t", new_session, None, open_table)
    DeltaTable("t", new_session, open_table, open_table)
    expected = {
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.parser.quotedRegexColumnNames": "false",
    }
    assert found == [expected, expected]

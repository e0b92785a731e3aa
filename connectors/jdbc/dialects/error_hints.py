"""What to do about failures that databases tell in their own words alone."""

from __future__ import annotations

from typing import Final

READ_ONLY: Final = (
    "the server or this database takes no writes (a standby, or set to be read-only): connection.url has to lead to the primary"
)
TOO_MANY: Final = "the server or this user has no connection left: lower tasks.max (each task has one), or raise the limit"
LOCKED: Final = "another session holds a lock on it for long: look there for a transaction that was left open"
FULL: Final = "the disk of the database is full: make room there, then restart the task if it has failed"
TOO_WIDE: Final = "leave out fields (fields.whitelist, field.exclude.list, ReplaceField), or spread them over several tables"
NO_UNIQUE_KEY: Final = (
    "insert.mode=upsert needs a primary key or unique index over exactly the columns of the key; create one: CREATE UNIQUE INDEX"
)


def with_cure(words: str, cure: str | None) -> str:
    """The database's words, and what to do where that is known."""
    return f"{words}; {cure}" if cure else words

"""What the engine of the sinks is told by a configuration, whichever connector's keys it has."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.jdbc.database import ConnectionSettings
from connectors.jdbc.options import InsertMode, WriteOptions


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How records are written; :class:`connectors.jdbc.sink.row_changes.Planner` says what."""

    connection: ConnectionSettings
    insert_mode: InsertMode = InsertMode.INSERT
    write: WriteOptions = field(default_factory=WriteOptions)
    batch_rows: int = 3000
    """How many records at most become one statement."""
    creates_tables: bool = False
    adds_columns: bool = False
    table_kinds: frozenset[str] | None = None
    """The kinds of table that may be written to (TABLE, VIEW, ...); None is any."""
    max_retries: int = 10
    """How often in a row a batch is tried again after the database was lost."""
    retry_backoff_ms: int = 3000
    tolerates_refusals: bool = False
    """``errors.tolerance=all``: a batch lands without the records that cannot be written."""
    shows_values: bool = True
    """Whether messages may have the database's own words, which often have values in them."""
    knows_type_names: bool = False
    """Whether new columns get the types that names of schemas tell (``io.debezium.time.MicroTimestamp``), not only Connect's."""
    creating_key: str = "auto.create=true"
    """What the user sets to have tables created, for messages."""
    adding_key: str = "auto.evolve=true"
    """What the user sets to have columns added, for messages."""
    retries_key: str = "max.retries"
    """The key of ``max_retries``, for messages."""

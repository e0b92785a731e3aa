"""Converts changes to rows of one table: key columns, schema evolution, and types. Writes nothing."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError, DataError, SchemaError
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import IGNORE, SOURCE_TS, VALID_FROM
from connectors.spark.decode.change_batch import IGNORED, OPERATION, SEQUENCE, ChangeBatch, find_tombstones
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.contracts import TableContract
from connectors.spark.plan.evolution import Columns, check_depth, check_names, merge_columns, sql_type, with_additions
from connectors.spark.plan.key_changes import with_key_types
from connectors.spark.plan.name_case import with_table_names
from connectors.spark.plan.operation_field import with_operations
from connectors.spark.plan.renames import check_table, rename_fields
from connectors.spark.plan.rescue import lenient_columns, project_leniently
from connectors.spark.plan.row_limits import NO_LIMITS, RowLimits
from connectors.spark.plan.source_order import with_source_order
from connectors.spark.plan.truncates import NO_FEEDS, Feeds, check_truncates, contains_truncate, find_row_changes
from connectors.spark.plan.unwrapped import SOURCE_MS_FIELD, unwrap
from connectors.spark.plan.widening import with_wider_types


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Changes converted to rows of the table; bad records are already excluded."""

    changes: list[ChangeBatch]
    """Each image has exactly ``columns``."""
    incoming: Columns
    """Columns of the records."""
    columns: Columns
    """Columns to write, with the table's types, which may have to be widened first."""
    keys: tuple[str, ...] = ()
    """Key columns of an upsert table."""
    may_lack: tuple[str, ...] = ()
    """Columns whose value in the table is kept for a record that does not have them."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By column: values that the schema contract leaves out."""
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The defaults of columns in the schema of the first records that have them."""
    one_partition: bool = True
    """Whether one partition alone feeds the table, so that its changes have an order."""
    with_values: Columns = field(default_factory=dict)
    """Columns for which a record has a value, whose types alone must fit together."""


class RowPreparation:
    """Prepares rows of the table ``name``."""

    def __init__(self, name: str, settings: TableConfig) -> None:
        self._name = name
        self._settings = settings
        self._keeps_missing = settings.upserts and settings.schema.keeps_missing
        self._contract = TableContract(name, settings.schema.contract, settings.is_lenient, settings.upserts)

    def prepare(
        self,
        table: Columns | None,
        changes: Sequence[ChangeBatch],
        keys: tuple[str, ...],
        known: PreparedRows | None = None,
        *,
        limits: RowLimits = NO_LIMITS,
        feeds: Feeds = NO_FEEDS,
    ) -> PreparedRows | None:
        """Converts changes to rows for a table with these columns (None: it does not exist); None when there are no rows.

        ``keys`` are the key columns if known, ``known`` other records of the same commit, and ``feeds`` the partitions that feed
        the table. A DataError raised here is about records.
        """
        if table is None:
            layout = self._settings.layout
            limits = RowLimits(layout.partition_columns, plain_names=layout.plain_names)
        try:
            before = {} if known is None else known.incoming
            own = {name: type_ for name, type_ in (table or {}).items() if name not in self._settings.metadata_columns}
            changes = [kept.without_empty_keys() for c in changes if (kept := _without_ignored(c)).num_rows]
            changes = [projection.without_other_fields(c, own) for c in changes]
            # The configuration names fields of records, so those are read before they get the names of the table.
            changes = [unwrap(c, self._settings) for c in changes]
            if {SOURCE_TS, VALID_FROM} & {*self._settings.metadata_columns}:
                for one in changes:
                    field = SOURCE_MS_FIELD if SOURCE_MS_FIELD in one.image.column_names else "source.ts_ms"
                    projection.check_source_times(one.meta, one.describe_record, field)
            if self._settings.upserts and self._settings.operation_field:
                changes = [with_operations(c, self._settings.operation_field) for c in changes]
            changes = [rename_fields(c, self._settings.schema.renames) for c in changes]
            if self._settings.ignores_case:
                changes = with_table_names(changes, {**before, **(table or {})})
            defaults = _first_defaults(changes)
            if self._settings.upserts:
                found = self._key_columns(changes, keys, table or ())
                if found is None and not contains_truncate(changes):
                    return None
                if table is None and not any(pc.any(find_row_changes(c.meta)).as_py() for c in changes):
                    return None  # a truncate creates no table
                if self._settings.delete_mode != IGNORE:
                    check_truncates(changes, self._name, feeds, orders_by_source=self._settings.orders_by_source)
                keys = found or ()  # a truncate needs no key
                if self._keeps_missing:
                    changes = [c.with_fields() for c in changes]
                is_configured, unavailable = bool(self._settings.key_columns), self._settings.unavailable
                changes = [deduplicate.with_key_columns(c, keys, is_configured, unavailable) for c in changes]
                if self._settings.orders_by_source:
                    changes = [with_source_order(c) for c in changes]
            else:
                if not self._settings.keep_tombstones:
                    changes = [c.filter(pc.invert(find_tombstones(c.meta))) for c in changes]
                changes = [projection.image_with_keys(c) for c in changes]
            changes = [c for c in changes if c.num_rows]
            if not changes:
                return None
            changes, dropped = self._apply_contract(table, changes, keys)
            parts = [projection.image_columns(c, table or ()) for c in changes]
            all_columns = [before, *parts]
            # Types need not fit together if the table has the column, or lacks it for good, or if other types are rescued.
            adds_none = self._settings.is_lenient or (table is not None and self._settings.leaves_fields_out)
            fixed: Collection[str] = {name for one in all_columns for name in one} if adds_none else table or ()
            found_values = [{n: t for n, t in one.items() if c.has_values(n)} for c, one in zip(changes, parts, strict=True)]
            try:
                with_values = merge_columns([{} if known is None else known.with_values, *found_values], fixed)
            except SchemaError as e:
                raise SchemaError(f"table {self._name}: {e.message}") from e
            incoming: Columns = {}
            for name, type_ in (column for one in all_columns for column in one.items()):
                incoming.setdefault(name, with_values.get(name, type_))
            # A truncate has no values, and JSON without a schema no types without values.
            incoming |= {name: table[name] for name in keys if table and name in table and name not in incoming}
            if table is not None:
                check_table(self._name, table, incoming, self._settings.schema.renames, ignores_case=self._settings.ignores_case)
            if table is not None and self._settings.widens_columns:
                # Part by part, because records of one commit may have different types.
                table = table if known is None else {n: known.columns.get(n, t) for n, t in table.items()}
                table = functools.reduce(with_wider_types, [c.image for c in changes], table)
            if self._settings.is_lenient:
                accepted = {n: t for n, t in incoming.items() if n in keys or limits.accepts(n, t)}
                columns = incoming = self._lenient_columns(table, accepted)
            else:
                columns = self._columns_for(table, incoming)
            if table is not None and self._keeps_missing:
                # Also those that no record has, whose values are kept.
                columns |= {n: t for n, t in table.items() if n not in (*columns, *self._settings.metadata_columns)}
            check_depth(columns)
            limits.check_names(columns)
            self._check_key_types(columns, keys)
            projected = [with_key_types(self._project(c, columns, keys), columns, keys) for c in changes]
            may_lack = [n for n in columns if n not in (*keys, self._settings.rescue_column)] if self._keeps_missing else []
            for part in projected:
                filled = {*may_lack, *self._settings.metadata_columns}
                limits.check(part, deletes_rows=self._settings.upserts, filled=filled)
            one_partition = all(len(feeds.of_topic(one.topic)) < 2 for one in projected)
            return PreparedRows(
                projected, incoming, columns, keys, tuple(may_lack), dropped, defaults, one_partition, with_values
            )
        except pa.ArrowException as e:
            raise DataError(f"table {self._name}: {e}") from e

    def _apply_contract(
        self, table: Columns | None, changes: Sequence[ChangeBatch], keys: tuple[str, ...]
    ) -> tuple[list[ChangeBatch], Counter[str]]:
        kept: list[ChangeBatch] = []
        dropped: Counter[str] = Counter()
        for part in changes:
            part, counts = self._contract.apply(part, table, keys)
            kept.append(part)
            dropped.update(counts)
        return kept, dropped

    def with_metadata(self, incoming: Columns) -> Columns:
        """The columns of records plus the metadata columns."""
        return incoming | {n: projection.METADATA_TYPES[n] for n in self._settings.metadata_columns}

    def _lenient_columns(self, table: Columns | None, incoming: Columns) -> Columns:
        try:
            return lenient_columns(table, incoming, self._settings.metadata_columns, self._settings.rescue_column)
        except SchemaError as e:
            # About the table and not about records, none of which would be at fault.
            raise ConnectError(f"table {self._name}: {e.message}") from e

    def _project(self, changes: ChangeBatch, columns: Columns, keys: tuple[str, ...]) -> ChangeBatch:
        if self._settings.is_lenient:
            return project_leniently(changes, columns, keys, self._settings.rescue_column)
        return projection.project(changes, columns, drops_fields=self._settings.leaves_fields_out)

    def _columns_for(self, table: Columns | None, incoming: Columns) -> Columns:
        """The incoming columns to write, with their types in the table after schema evolution."""
        projection.check_metadata_names(incoming, self._settings.metadata_columns)
        check_names(incoming)
        wanted = self.with_metadata(incoming)
        if table is None and not wanted:
            raise SchemaError(f"table {self._name} would have no columns: the records have no fields, and metadata.columns=none")
        columns = with_additions(table or {}, wanted)  # raises for names that differ only in case
        if table is None:
            return incoming
        # With schema.evolution=fail, the table refuses what it lacks.
        columns = table if self._settings.leaves_fields_out else columns
        found = {n: columns[n] for n in incoming if n in columns}
        # A row has columns even if its record has no field with a place in the table.
        return found or {n: t for n, t in table.items() if n not in self._settings.metadata_columns}

    def _check_key_types(self, columns: Columns, keys: tuple[str, ...]) -> None:
        for name in keys if self._settings.upserts else ():
            if name in columns and pa.types.is_nested(columns[name]):
                raise ConnectError(
                    f"table {self._name}: the key column {name} is {sql_type(columns[name])}, whose values cannot be compared; "
                    "set key.columns to columns of other types that identify a row, or write.mode=append"
                )

    def _configured_keys(self, changes: Sequence[ChangeBatch], table: Collection[str]) -> tuple[str, ...]:
        keys = self._settings.key_columns
        if not self._settings.ignores_case:
            return keys
        parts = [columns.column_names for part in changes for columns in (part.keys, part.image) if columns is not None]
        names = {name.lower(): name for columns in (table, *parts) for name in columns}
        return tuple(names.get(key.lower(), key) for key in keys)

    def _key_columns(
        self, changes: Sequence[ChangeBatch], known: tuple[str, ...], table: Collection[str]
    ) -> tuple[str, ...] | None:
        """The key columns (``known``, if not empty); None when no record needs a key. Raises DataError for a row without a
        key."""
        if self._settings.key_columns:
            return self._configured_keys(changes, table)
        for part in changes:
            needs_key = find_row_changes(part.meta)
            bare = needs_key if part.keys is None else pc.and_(needs_key, _all_null(part.keys))
            if pc.any(bare).as_py():
                raise DataError(
                    f"{part.describe_record(pc.index(bare, True).as_py())}: the record has no key, which only write.mode=append "
                    "allows; set key.columns to the columns that identify a row, or write.mode=append if there are none"
                )
            if part.keys is None:
                continue
            names = tuple(part.keys.column_names)
            if known and set(names) != set(known):
                raise DataError(
                    f"topic {part.topic}: the record key has the fields {', '.join(names)}, and table {self._name} has the key "
                    f"{', '.join(known)}; set key.columns, or write into another table"
                )
            known = known or names
        return known or None


def _without_ignored(changes: ChangeBatch) -> ChangeBatch:
    is_ignored = pc.fill_null(pc.equal(changes.meta[OPERATION], IGNORED), False)
    return changes.filter(pc.invert(is_ignored)) if pc.any(is_ignored).as_py() else changes


def _first_defaults(changes: Sequence[ChangeBatch]) -> dict[str, pa.Scalar]:
    """By column: its default in the first records that have one. Rows of before have what was the default then."""
    found: dict[str, pa.Scalar] = {}
    for part in sorted((c for c in changes if c.defaults and c.num_rows), key=lambda c: pc.min(c.meta[SEQUENCE]).as_py()):
        found = {**part.defaults, **found}
    return found


def _all_null(columns: pa.Table) -> pa.ChunkedArray:
    """Mask of the rows in which all columns are null."""
    return functools.reduce(pc.and_, [column.is_null() for column in columns.columns])

"""``schema.contract``: what becomes of values that would change their table. Pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.config.schema_contracts import ContractMode, ContractRules, FrozenSchemaError
from connect.errors import DataError
from connectors.spark.decode.change_batch import ChangeBatch, empty_rows, find_deletes
from connectors.spark.decode.exact_values import parse_document
from connectors.spark.decode.rescued_json import RESCUED, node_text, object_text
from connectors.spark.plan.evolution import Columns, quote, sql_type, without_empty_structs
from connectors.spark.plan.rescue import split_fitting


@dataclass(frozen=True, slots=True)
class TableContract:
    """The contract of one table. ``is_lenient``: without a contract, values that do not fit are rescued. ``upserts``: deletes
    write no values but those of their key."""

    table: str
    rules: ContractRules
    is_lenient: bool = False
    upserts: bool = False

    def apply(self, changes: ChangeBatch, columns: Columns | None, keys: Collection[str]) -> tuple[ChangeBatch, dict[str, int]]:
        """The changes without values that the contract leaves out, and how many these are, by column. ``columns`` are those of
        the table; a table that does not exist gets its contract with its first records.

        Raises FrozenSchemaError, and DataError that names the record.
        """
        dropped: dict[str, int] = {}
        if RESCUED in changes.image.column_names and (self.rules.are_used or not self.is_lenient):
            changes = self._settle_rescued(changes, dropped)
        if columns is None or not self.rules.are_used:
            return changes, dropped
        image = changes.image
        written = self._find_written(changes)
        for name in changes.image.column_names:
            mode = self.rules.mode_of(self.table, name)
            column = changes.image[name]
            if name == RESCUED or mode is ContractMode.EVOLVE or pa.types.is_null(column.type):
                continue
            if name not in columns:
                if without_empty_structs(column.type, name) is None:
                    continue
                unfit = column.is_valid()
                image = image.drop_columns([name])
                text = f"the table has no column {name}"
                remedy = f"ADD COLUMNS ({quote(name)} {sql_type(column.type)})"
            else:
                values, unfit = split_fitting(column, columns[name], name)
                image = image.set_column(image.column_names.index(name), name, values)
                text = f"column {name} is {sql_type(columns[name])}, which does not hold the value"
                remedy = f"ALTER COLUMN {quote(name)} TYPE {sql_type(column.type)}"
            if name not in keys:
                unfit = pc.and_(unfit, written)
            if count := pc.sum(unfit).as_py() or 0:
                at = pc.index(unfit, True).as_py()
                self._judge(mode, changes, at, text, remedy, is_key=name in keys)
                dropped[name] = dropped.get(name, 0) + count
        if not image.num_columns:
            image = empty_rows(changes.num_rows)
        return replace(changes, image=image), dropped

    def _find_written(self, changes: ChangeBatch) -> pa.Scalar | pa.ChunkedArray:
        """Mask of the changes that write more than their key."""
        return pc.invert(find_deletes(changes.meta)) if self.upserts else pa.scalar(True)

    def _judge(self, mode: ContractMode, changes: ChangeBatch, at: int, text: str, remedy: str, *, is_key: bool = False) -> None:
        """Raises the error of a record with a value that would change the table, unless the value is left out."""
        where = f"{changes.describe_record(at)}: {text}"
        if mode is ContractMode.FREEZE or (mode is ContractMode.DROP_COLUMN and is_key):
            why = "it is part of the key" if is_key else "its schema contract is freeze"
            raise FrozenSchemaError(
                f"table {self.table} would change, but {why}: {where}. Alter the table ({remedy}) and restart the task, or allow "
                "the change with schema.contract.overrides"
            )
        if mode is ContractMode.DEAD_LETTER_QUEUE:
            raise DataError(f"{where}, and the schema contract of table {self.table} is dead_letter_queue")

    def _settle_rescued(self, changes: ChangeBatch, dropped: dict[str, int]) -> ChangeBatch:
        """Decides about values without a schema that did not fit when they were decoded. None is that of a key."""
        column = pc.if_else(self._find_written(changes), changes.image[RESCUED], None)
        texts = column.to_pylist()
        for at in pc.indices_nonzero(column.is_valid()).to_pylist():
            members = parse_document(texts[at].encode())
            kept = {}
            for name, value in members.items():
                mode = self.rules.mode_of(self.table, name)
                text = f"field {name}: {node_text(value)} does not have the type of its column, which is that of its first values"
                self._judge(mode, changes, at, text, f"ALTER COLUMN {quote(name)} TYPE ...")
                if mode is ContractMode.DROP_COLUMN:
                    dropped[name] = dropped.get(name, 0) + 1
                elif self.is_lenient:
                    kept[name] = node_text(value)
                else:
                    raise DataError(f"{changes.describe_record(at)}: {text}")
            texts[at] = object_text(kept) if kept else None
        image = changes.image.drop_columns([RESCUED])
        if any(texts):
            image = changes.image.set_column(changes.image.column_names.index(RESCUED), RESCUED, pa.array(texts, pa.string()))
        return replace(changes, image=image if image.num_columns else empty_rows(changes.num_rows))

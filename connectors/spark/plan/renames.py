"""``column.renames``: fields of records that are written into columns of other names. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError, DataError
from connectors.spark.decode.change_batch import FIELDS, ChangeBatch
from connectors.spark.decode.present_fields import fields_of, fields_text, rows_with
from connectors.spark.plan.evolution import Columns, common_type


def rename_fields(changes: ChangeBatch, renames: Mapping[str, str]) -> ChangeBatch:
    """The changes with columns of the table's names, in values and keys. Raises DataError for a record that has a field and also
    one with the name of its column."""
    if not renames or not _has_any(changes, renames):
        return changes
    changes = changes.with_fields()
    fields = changes.meta[FIELDS]
    image = changes.image
    present = rows_with(fields, [*renames, *renames.values()])
    for new in dict.fromkeys(renames.values()):
        sources = [
            name for name in (*(old for old, column in renames.items() if column == new), new) if name in image.column_names
        ]
        _check_only_one(changes, sources, {name: pa.array(present[name]) for name in sources}, new)
        image = _join(image, sources, new)
    keys = changes.keys
    if keys is not None:
        for new in dict.fromkeys(renames.values()):
            sources = [n for n in (*(old for old, column in renames.items() if column == new), new) if n in keys.column_names]
            _check_only_one(changes, sources, {name: keys[name].is_valid() for name in sources}, new)
            keys = _join(keys, sources, new)
    texts = {text: fields_text(renames.get(name, name) for name in fields_of(text)) for text in pc.unique(fields).to_pylist()}
    renamed = pa.array([texts[text] for text in fields.to_pylist()], pa.string())
    meta = changes.meta.set_column(changes.meta.column_names.index(FIELDS), FIELDS, renamed)
    defaults = {renames.get(name, name): value for name, value in changes.defaults.items()}
    return replace(changes, meta=meta, image=image, keys=keys, defaults=defaults)


def _has_any(changes: ChangeBatch, renames: Mapping[str, str]) -> bool:
    names = {*changes.image.column_names, *(() if changes.keys is None else changes.keys.column_names)}
    return not names.isdisjoint(renames)


def _check_only_one(changes: ChangeBatch, names: list[str], present: Mapping[str, pa.Array | pa.ChunkedArray], new: str) -> None:
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            both = pc.and_(present[name], present[other])
            if pc.any(both).as_py():
                raise DataError(
                    f"{changes.describe_record(pc.index(both, True).as_py())}: the record has the fields {name} and {other}, and "
                    f"column.renames writes both into the column {new}; remove {name} from column.renames, or one of the fields "
                    "with a transformation"
                )


def _join(rows: pa.Table, names: list[str], new: str) -> pa.Table:
    """The rows with one column instead of these, of which a record has at most one."""
    if not names or names == [new]:
        return rows
    type_ = rows[names[0]].type
    for name in names[1:]:
        type_ = common_type(type_, rows[name].type, new)
    column = pc.coalesce(*(rows[name].cast(type_) for name in names))
    rest = rows.drop_columns(names[1:])
    return rest.set_column(rest.column_names.index(names[0]), new, column)


def with_field_names(columns: Columns, renames: Mapping[str, str]) -> Columns:
    """The columns, and for each field that is written into one of them, its type."""
    return columns | {old: columns[new] for old, new in renames.items() if new in columns}


def check_table(name: str, table: Columns | None, incoming: Columns, renames: Mapping[str, str]) -> None:
    """Raises ConnectError when records would begin a new column while the table has their values under the field's own name."""
    for old, new in renames.items():
        if table is not None and new in incoming and new not in table and old in table:
            raise ConnectError(
                f"table {name} has the column {old} and lacks {new}, into which column.renames={old}:{new} writes records; set "
                f"column.renames={new}:{old} to continue in the column {old}, or rename the column of the table"
            )

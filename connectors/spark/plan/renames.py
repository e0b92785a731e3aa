"""``column.renames``: fields of records that are written into columns of other names. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError, DataError
from connectors.spark.decode.change_batch import FIELDS, ChangeBatch
from connectors.spark.decode.exact_values import parse_document
from connectors.spark.decode.present_fields import rows_with
from connectors.spark.decode.rescued_json import RESCUED, node_text, object_text
from connectors.spark.plan.evolution import Columns, cast_column, common_type


def rename_fields(changes: ChangeBatch, renames: Mapping[str, str]) -> ChangeBatch:
    """The changes with columns of the table's names, in values and keys. Raises DataError for a record that has a field and also
    one with the name of its column."""
    if not renames:
        return changes
    changes = changes.with_fields()
    image, keys = changes.image, changes.keys
    # Also fields of which a part of a batch has no value, and thus no column.
    present = rows_with(changes.meta[FIELDS], [*renames, *renames.values()])
    for new in dict.fromkeys(renames.values()):
        sources = [*(old for old, column in renames.items() if column == new), new]
        _check_only_one(changes, sources, {name: pa.array(present[name]) for name in sources}, new)
        image = _join(image, [name for name in sources if name in image.column_names], new)
        if keys is not None:
            of_key = [name for name in sources if name in keys.column_names]
            _check_only_one(changes, of_key, {name: keys[name].is_valid() for name in of_key}, new)
            keys = _join(keys, of_key, new)
    if RESCUED in image.column_names:
        texts = [None if text is None else _renamed_members(text, renames) for text in image[RESCUED].to_pylist()]
        image = image.set_column(image.column_names.index(RESCUED), RESCUED, pa.array(texts, pa.string()))
    return changes.with_names(image, keys, lambda name: renames.get(name, name))


def _renamed_members(text: str, renames: Mapping[str, str]) -> str:
    return object_text({renames.get(name, name): node_text(node) for name, node in parse_document(text.encode()).items()})


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
    written = [name for name in names if rows[name].null_count < rows.num_rows] or names[:1]
    type_ = rows[written[0]].type
    for name in written[1:]:
        type_ = common_type(type_, rows[name].type, new)
    column = pc.coalesce(*(cast_column(rows[name], type_, name) for name in written))
    rest = rows.drop_columns(names[1:])
    return rest.set_column(rest.column_names.index(names[0]), new, column)


def with_field_names(columns: Columns, renames: Mapping[str, str]) -> Columns:
    """The columns, and for each field that is written into one of them, its type."""
    return columns | {old: columns[new] for old, new in renames.items() if new in columns}


def check_table(name: str, table: Columns, incoming: Columns, renames: Mapping[str, str], *, ignores_case: bool) -> None:
    """Raises ConnectError when records would begin a new column while the table has their values under the field's own name."""

    def by_name(columns: Columns) -> dict[str, str]:
        return {folded(column): column for column in columns}

    folded = str.lower if ignores_case else str
    known, written = by_name(table), by_name(incoming)
    for old, new in renames.items():
        own = known.get(folded(old))
        if own is not None and folded(new) in written and folded(new) not in known:
            raise ConnectError(
                f"table {name} has the column {own} and lacks {new}, into which column.renames={old}:{new} writes records; set "
                f"column.renames={new}:{own} to continue in the column {own}, or rename the column of the table"
            )

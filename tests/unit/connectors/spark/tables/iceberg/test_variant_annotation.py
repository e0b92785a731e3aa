"""The annotation of VARIANT columns in the footers of Parquet files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from connectors.spark.decode.variant import VARIANT, encode_variants
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.types import file_schema, new_schema
from connectors.spark.tables.iceberg.variant_annotation import annotate_variants, open_parquet_writer, variant_paths

COLUMNS = {
    "id": pa.int64(),
    "before": pa.struct([pa.field("a", pa.list_(pa.struct([pa.field("x", pa.decimal128(38, 2))]))), pa.field("b", pa.date32())]),
    "m": pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC"))),
    "doc": VARIANT,
    "in_struct": pa.struct([pa.field("n", pa.int32()), pa.field("doc", VARIANT), pa.field("s", pa.struct([("doc", VARIANT)]))]),
    "in_list": pa.list_(VARIANT),
    "in_map": pa.map_(pa.string(), VARIANT),
    # No VARIANT, although it looks like one.
    "other": pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]),
}
VALUES: list[dict[str, Any]] = [
    {"id": 1, "doc": {"a": 1}, "in_struct": {"n": 1, "doc": [2], "s": {"doc": "x"}}, "in_list": [1, None], "in_map": [("k", {})]},
    {"id": 2, "doc": None, "in_struct": None, "in_list": None, "in_map": None},
    {"id": 3, "doc": "text", "in_struct": {"n": None, "doc": None, "s": None}, "in_list": [], "in_map": [("k", None)]},
]


def rows() -> pa.Table:
    """The values with VARIANTs, in the types of the columns."""

    def value(node: Any, type_: pa.DataType) -> Any:
        if node is None:
            return None
        if type_ == VARIANT:
            return encode_variants([node])[0].as_py()
        if pa.types.is_struct(type_):
            return {f.name: value(node[f.name], f.type) for f in type_}
        if pa.types.is_map(type_):
            return [(k, value(v, type_.item_type)) for k, v in node]
        return [value(item, type_.value_type) for item in node] if pa.types.is_list(type_) else node

    found = {name: [value(row.get(name), type_) for row in VALUES] for name, type_ in COLUMNS.items()}
    return pa.table({name: pa.array(found[name], type_) for name, type_ in COLUMNS.items()})


def annotated(schema: Any) -> list[str]:
    """The groups that Parquet's own reader finds to be VARIANTs, by their paths."""
    path: list[str] = []
    found = []
    for line in str(schema).splitlines()[1:]:
        words = line.split()
        if words == ["}"]:
            path.pop()
        elif words[1:2] == ["group"]:
            path.append(words[3])
            if "(Variant(1))" in line:
                found.append(".".join(path[1:]))
    return found


def write(path: Path, table: pa.Table, row_group_size: int = 2, **options: Any) -> pq.ParquetFile:
    with pa.OSFile(str(path), "wb") as stream, open_parquet_writer(stream, table.schema, **options) as parquet:
        parquet.write_table(table, row_group_size)
    return pq.ParquetFile(path)


def test_data_files_of_a_table_have_annotated_variants(tmp_path: Path) -> None:
    schema = new_schema(COLUMNS)
    plain = pa.BufferOutputStream()
    pq.write_table(file_schema(schema, list(COLUMNS)).empty_table(), plain, store_schema=False)
    unannotated = pq.read_schema(pa.BufferReader(plain.getvalue()))
    writer = IcebergFileWriter(fs.LocalFileSystem(), str(tmp_path), schema, 0, 2)
    for entry in (
        writer.write(rows(), ()),
        writer.write_batches([rows().slice(0, 1), rows().slice(1, 0), rows().slice(1)], (), 0),
    ):
        assert entry is not None
        assert entry["size"] == Path(entry["path"]).stat().st_size
        parquet = pq.ParquetFile(entry["path"])
        expected = ["doc", "in_struct.doc", "in_struct.s.doc", "in_list.list.element", "in_map.key_value.value"]
        assert annotated(parquet.schema) == expected
        # Names, IDs, and everything else of the footer is as before.
        assert parquet.schema_arrow.equals(unannotated, check_metadata=True)
        assert parquet.read().cast(rows().schema).equals(rows())


def test_reads_of_parts_find_their_places(tmp_path: Path) -> None:
    table = pa.table({"id": range(1000), "doc": encode_variants([{"n": n} for n in range(1000)])})
    options = {"write_page_index": True, "data_page_size": 512, "compression": "zstd"}
    parquet = write(tmp_path / "f", table, 300, **options)
    assert parquet.metadata.num_row_groups == 4
    assert parquet.metadata.row_group(0).column(0).has_offset_index
    assert parquet.read_row_group(2, ["doc"]).equals(table.select(["doc"]).slice(600, 300))
    plain = pa.BufferOutputStream()
    pq.write_table(table, plain, row_group_size=300, **options)
    content, without = (tmp_path / "f").read_bytes(), plain.getvalue().to_pybytes()
    footer = len(without) - 8 - int.from_bytes(without[-8:-4], "little")
    assert content[:footer] == without[:footer]
    assert len(content) == len(without) + 7


def test_files_without_variants_are_written_as_they_are(tmp_path: Path) -> None:
    table = rows().select(["id", "before", "m", "other"])
    assert annotated(write(tmp_path / "f", table).schema) == []
    plain = pa.BufferOutputStream()
    pq.write_table(table, plain, row_group_size=2)
    assert (tmp_path / "f").read_bytes() == plain.getvalue().to_pybytes()


def test_file_that_could_not_be_written_is_deleted(tmp_path: Path) -> None:
    writer = IcebergFileWriter(fs.LocalFileSystem(), str(tmp_path), new_schema(COLUMNS), 0, 2)

    def batches() -> Iterator[pa.Table]:
        yield rows()
        raise RuntimeError("no more rows")

    with pytest.raises(RuntimeError, match="no more rows"):
        writer.write_batches(batches(), (), 0)
    assert list(tmp_path.iterdir()) == []


def test_end_of_a_file_that_could_not_be_written_is_not_written(tmp_path: Path) -> None:
    def fail() -> None:
        with pa.OSFile(str(tmp_path / "f"), "wb") as stream, open_parquet_writer(stream, rows().schema) as parquet:
            parquet.write_table(rows())
            raise RuntimeError("no more rows")

    with pytest.raises(RuntimeError, match="no more rows"):
        fail()
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(tmp_path / "f")


TYPES = st.recursive(
    st.sampled_from([VARIANT, pa.int32(), pa.string(), pa.decimal128(12, 2), pa.timestamp("us"), pa.bool_()]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda item: pa.map_(pa.string(), item)),
        st.lists(inner, min_size=1, max_size=20).map(lambda types: pa.struct([(f"f{n}", t) for n, t in enumerate(types)])),
    ),
    max_leaves=25,
)


@given(st.lists(TYPES, min_size=1, max_size=20), st.booleans())
def test_schemas_of_any_shape(types: list[pa.DataType], has_ids: bool) -> None:
    schema = pa.schema([(f"c{n}", type_) for n, type_ in enumerate(types)])
    if has_ids:
        schema = file_schema(new_schema(dict(zip(schema.names, types, strict=True))), schema.names)
    stream = pa.BufferOutputStream()
    with open_parquet_writer(stream, schema) as parquet:
        parquet.write_table(schema.empty_table())
    read = pq.ParquetFile(pa.BufferReader(stream.getvalue()))
    assert annotated(read.schema) == [".".join(path) for path in variant_paths(schema)]
    assert read.schema_arrow.equals(schema)


def test_footer_with_other_fields_keeps_them() -> None:
    metadata = {f"key{n}": json.dumps(list(range(n))) for n in range(40)}
    schema = pa.schema([("id", pa.int32()), ("doc", VARIANT)], metadata=metadata)
    stream = pa.BufferOutputStream()
    with open_parquet_writer(stream, schema, sorting_columns=[pq.SortingColumn(0, descending=True)]) as parquet:
        parquet.write_table(schema.empty_table())
    read = pq.ParquetFile(pa.BufferReader(stream.getvalue()))
    assert annotated(read.schema) == ["doc"]
    assert {key.decode(): value.decode() for key, value in read.metadata.metadata.items()}.items() >= metadata.items()


def test_group_that_cannot_be_annotated_is_named() -> None:
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"l": [[1]], "i": [1]}), stream)
    content = stream.getvalue().to_pybytes()
    for path, problem in ((("x", "y"), r"no schema element x\.y$"), (("l",), "the schema element l has a logical type")):
        with pytest.raises(ValueError, match=problem):
            annotate_variants(content, [path])


@pytest.mark.parametrize("columns", [1, 14, 15, 16, 130, 300])
def test_length_of_the_schema_is_read_in_both_forms(columns: int) -> None:
    names = [f"c{n}" for n in range(columns)]
    schema = pa.schema([*itertools.zip_longest(names, (), fillvalue=pa.int8()), ("doc", VARIANT)])
    stream = pa.BufferOutputStream()
    with open_parquet_writer(stream, schema) as parquet:
        parquet.write_table(schema.empty_table())
    assert annotated(pq.ParquetFile(pa.BufferReader(stream.getvalue())).schema) == ["doc"]

"""Tables written like SHOW CREATE TABLE and read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.schema.ddl import DdlContext, parse_create_table
from connectors.mysql.schema.model import Column, MySqlTable

_NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).map(str.strip).filter(bool)
_TEXTS = st.text(max_size=12)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\0", "\\0") + "'"


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


@st.composite
def _columns(draw: st.DrawFn, name: str, position: int) -> Column:
    kind = draw(
        st.sampled_from(["INT", "BIGINT UNSIGNED", "VARCHAR", "TEXT", "DECIMAL", "ENUM", "DATETIME", "BIT", "JSON", "BLOB"])
    )
    jdbc = {"INT": 4, "BIGINT UNSIGNED": -5, "VARCHAR": 12, "TEXT": 12, "DECIMAL": 3, "ENUM": 1, "DATETIME": 93, "BIT": -7,
            "JSON": 1111, "BLOB": 2004}[kind]  # fmt: skip
    values: tuple[str, ...] = ()
    length, scale, charset, default = None, None, None, None
    if kind in ("VARCHAR", "BIT"):
        length = draw(st.integers(1, 64))
    elif kind == "DECIMAL":
        length, scale = draw(st.integers(5, 65)), draw(st.integers(0, 5))
    elif kind == "DATETIME":
        length = draw(st.sampled_from([None, 3, 6]))
    elif kind == "ENUM":
        values = tuple(text.rstrip(" ") for text in draw(st.lists(_TEXTS, min_size=1, max_size=4)))
        length = 1
    if jdbc in (1, 12):
        charset = draw(st.sampled_from(["utf8mb4", "latin1"]))
        if kind != "TEXT" and draw(st.booleans()):
            default = draw(st.sampled_from(values)) if values else draw(_TEXTS)
    elif kind == "INT" and draw(st.booleans()):
        default = str(draw(st.integers(-9, 9)))
    optional = draw(st.booleans())
    has_default = optional or default is not None
    comment = draw(st.none() | _TEXTS.filter(bool))
    return Column(
        name, position, kind, kind, jdbc, length, scale, charset, optional, False, False, has_default, default, values, comment
    )


def _written(column: Column, table_charset: str) -> str:
    base, _, sign = column.type_name.partition(" ")
    sizes = [str(size) for size in (column.length, column.scale) if size is not None]
    if column.enum_values:
        sizes = [_string(value) for value in column.enum_values]
    parts = [_name(column.name), base.lower() + (f"({','.join(sizes)})" if sizes else ""), sign.lower()]
    if column.charset not in (None, table_charset):
        parts.append(f"CHARACTER SET {column.charset} COLLATE {column.charset}_bin")
    parts.append("" if column.optional else "NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {_string(column.default)}")
    elif column.optional:
        parts.append("DEFAULT NULL")
    if column.comment is not None:
        parts.append(f"COMMENT {_string(column.comment)}")
    return " ".join(part for part in parts if part)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[MySqlTable, str]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=6, unique_by=str.lower))
    columns = tuple(draw(_columns(name, i)) for i, name in enumerate(names, 1))
    required = [column.name for column in columns if not column.optional]
    key = tuple(draw(st.permutations(required))[: draw(st.integers(0, 2))]) if required else ()
    charset = draw(st.sampled_from(["utf8mb4", "latin1"]))
    lines = [_written(column, charset) for column in columns]
    if key:
        lines.append(f"PRIMARY KEY ({','.join(map(_name, key))})")
    name = draw(_NAMES)
    text = f"CREATE TABLE {_name(name)} (\n  " + ",\n  ".join(lines) + f"\n) ENGINE=InnoDB DEFAULT CHARSET={charset}"
    return MySqlTable("d", name, columns, key, charset), text


@settings(max_examples=100, deadline=None)
@given(_tables())
def test_table_is_read_as_it_was_written(written: tuple[MySqlTable, str]) -> None:
    table, text = written
    found = parse_create_table(text, "d", DdlContext(server_charset="ascii"))
    assert found == table
    assert [column.comment for column in found.columns] == [column.comment for column in table.columns]

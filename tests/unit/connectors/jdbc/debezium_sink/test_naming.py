"""Names of tables and columns for topics and fields."""

from __future__ import annotations

import pytest

from connectors.jdbc.debezium_sink.naming import CollectionNaming, FieldFilter, IdentifierCase
from connectors.jdbc.table_name import TableName


def test_dots_of_a_topic_become_underscores_and_dots_of_the_format_stay() -> None:
    assert CollectionNaming("${topic}").name_for("srv.sch.t") == "srv_sch_t"
    assert CollectionNaming("lake.${topic}_x").name_for("srv.t") == "lake.srv_t_x"


def test_the_passthrough_strategy_keeps_dots_and_knows_no_source() -> None:
    names = CollectionNaming("${topic}.${source.db}", keeps_dots=True)
    assert names.source_fields == ()
    assert names.name_for("srv.t") == "srv.t.${source.db}"


def test_fields_of_the_source_are_filled_in_as_they_are() -> None:
    names = CollectionNaming("${source.schema}.${topic}_${source.table}")
    assert names.source_fields == ("schema", "table")
    assert names.name_for("a.b", ("s", r"t\1")) == r"s.a_b_t\1"


@pytest.mark.parametrize(
    ("entries", "includes", "kept"),
    [
        ((), True, ["t:a", "t:b", "u:a"]),
        (("a",), True, ["t:a", "u:a"]),
        (("t:a",), True, ["t:a"]),
        (("a",), False, ["t:b"]),
        (("t:a", "b"), False, ["u:a"]),
    ],
)
def test_lists_name_fields_of_all_topics_or_of_one(entries: tuple[str, ...], includes: bool, kept: list[str]) -> None:
    chosen = FieldFilter(entries, includes)
    assert [one for one in ("t:a", "t:b", "u:a") if chosen.includes_field(*one.split(":"))] == kept


@pytest.mark.parametrize(
    ("backend", "keeps", "name"),
    [("postgresql", False, "mycol"), ("oracle", False, "MYCOL"), ("mysql", False, "MyCol"), ("postgresql", True, "MyCol")],
)
def test_unquoted_names_have_the_case_of_the_database(backend: str, keeps: bool, name: str) -> None:
    identifier_case = IdentifierCase(backend, keeps)
    assert identifier_case.name("MyCol") == name
    assert identifier_case.name("_MyCol") == "_MyCol"
    assert identifier_case.table(TableName("MyCol", "MyCol")) == TableName(name, name)


@pytest.mark.parametrize(
    ("backend", "keeps", "names"),
    [
        ("postgresql", False, ["mycol", "_mycol"]),
        ("mysql", False, ["mycol", "_mycol"]),
        ("mariadb", False, ["mycol", "_mycol"]),
        ("mssql", False, ["mycol", "_mycol"]),
        ("oracle", False, ["MYCOL", "_MyCol"]),
        ("sqlite", False, ["MyCol", "_MyCol"]),
        ("mysql", True, ["MyCol", "_MyCol"]),
    ],
)
def test_unquoted_columns_are_lower_case_like_debeziums(backend: str, keeps: bool, names: list[str]) -> None:
    assert [IdentifierCase(backend, keeps).column(name) for name in ("MyCol", "_MyCol")] == names

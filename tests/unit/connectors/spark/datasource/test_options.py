"""The options of the data source, whose names Spark passes in lower case."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.spark.datasource.options import parse_options
from connectors.spark.datasource.spooler_process import SpoolerMode, SpoolerProcess

GIVEN = {"connector.class": "Postgres", "spool.location": "/spools/a"}


def test_options_of_the_data_source_are_not_given_to_the_connector() -> None:
    own = {"table": "t", "maxrowspertrigger": "10", "numpartitions": "3", "startingoffsets": "Confirmed"}
    options = parse_options({**GIVEN, **own, "slot.name": "s", "path": "/ignored"})
    assert (options.table, options.max_rows, options.partitions, options.starts_at_confirmed) == ("t", 10, 3, True)
    assert options.properties == {**GIVEN, "slot.name": "s"}
    assert options.spool.location == Path("/spools/a")


def test_file_has_the_configuration_and_options_take_precedence(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text("connector.class=Postgres\nslot.name=a\nloadSize=3\n")
    options = parse_options({"connector.properties": str(file), "spool.location": "/s", "slot.name": "b"})
    assert options.properties == {"connector.class": "Postgres", "spool.location": "/s", "slot.name": "b", "loadSize": "3"}


def test_names_have_their_own_case_where_the_file_or_spool_tables_says_it(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text("connector.class=Postgres\nconnection.sslMode=trust\n")
    given = {**GIVEN, "connection.sslMode": "verify", "a.Salt": "1", "b.Salt": "2", "connector.properties": str(file)}
    lower = {name.lower(): value for name, value in given.items()}
    options = parse_options(lower)
    assert options.properties == {**GIVEN, "connection.sslMode": "verify", "a.salt": "1", "b.salt": "2"}
    assert options.lower_case == ("a.salt", "b.salt", "spool.location")
    options = parse_options({**lower, "names": "\n".join(given)})
    assert options.properties == {**GIVEN, "connection.sslMode": "verify", "a.Salt": "1", "b.Salt": "2"}
    assert options.lower_case == ()
    text = SpoolerProcess(parse_options(lower), SpoolerMode.STREAM)._text
    assert r"spool.names.in.lower.case=a.salt\nb.salt\nspool.location" in text


def test_placeholder_of_unavailable_values_is_that_of_the_connector() -> None:
    assert parse_options(GIVEN).unavailable == "__debezium_unavailable_value"
    assert parse_options({**GIVEN, "unavailable.value.placeholder": "nothing"}).unavailable == "nothing"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"connector.class": None}, "Set the option connector.class, or connector.properties"),
        ({"spool.location": None}, "spool.location"),
        ({"spool.max.byte": "1"}, "There is no option spool.max.byte; did you mean spool.max.bytes"),
        ({"spool.location": "s3://b/c"}, "on a cluster, one that all hosts mount"),
        ({"maxrowspertrigger": "0"}, "Invalid value 0 for configuration maxRowsPerTrigger: expected a number above 0"),
        ({"startingoffsets": "latest"}, "Invalid value latest for configuration startingOffsets: expected confirmed"),
    ],
)
def test_wrong_options_are_refused_by_name(changes: dict[str, str | None], problem: str) -> None:
    options = {name: value for name, value in {**GIVEN, **changes}.items() if value is not None}
    with pytest.raises(ConfigError, match=problem):
        parse_options(options)


def test_misspelled_options_of_the_data_source_are_named_when_the_connector_does_not_know_them() -> None:
    options = parse_options({**GIVEN, "tabel": "orders", "maxRowPerTrigger": "5", "slot.name": "s"})
    process = SpoolerProcess(options, SpoolerMode.STREAM)
    error = "cannot run:\n- Nothing reads tabel: X has no such key\n- Nothing reads maxrowpertrigger: X has no such key"
    assert process._with_similar_options(error) == (
        f"{error}\n- Did you mean table instead of tabel?\n- Did you mean maxRowsPerTrigger instead of maxrowpertrigger?"
    )
    assert process._with_similar_options("the connector knows tabel") == "the connector knows tabel"

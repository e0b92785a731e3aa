"""ConfigDef: Kafka's types, rules and words."""

from __future__ import annotations

from typing import Any

import pytest

from connect.config.definition import ConfigDef, ConfigKey, Importance, Recommender
from connect.config.parsing import Password, parse_value, to_text
from connect.config.types import ConfigType
from connect.config.validators import AllOf, DistinctList, NonEmpty, Range, at_least, one_of
from connect.errors import ConfigError


@pytest.mark.parametrize(
    ("type", "given", "value"),
    [
        (ConfigType.INT, " 5 ", 5),
        (ConfigType.INT, "+5", 5),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "1d", 1.0),
        (ConfigType.DOUBLE, "0x1p3", 8.0),
        (ConfigType.DOUBLE, "1e400", float("inf")),
        (ConfigType.INT, "\u0663", 3),
        (ConfigType.LIST, "a\u00a0,b", ["a\u00a0", "b"]),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.LIST, " a , b,,c ", ["a", "b", "", "c"]),
        (ConfigType.LIST, "", []),
        (ConfigType.STRING, " x ", "x"),
        (ConfigType.STRING, "\u00a0x", "\u00a0x"),
        (ConfigType.PASSWORD, "p", Password("p")),
        (ConfigType.INT, None, None),
    ],
)
def test_text_is_parsed(type: ConfigType, given: Any, value: Any) -> None:
    assert parse_value("k", given, type) == value


@pytest.mark.parametrize(
    ("type", "given", "reason"),
    [
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, " x ", "Not a number of type INT"),
        (ConfigType.INT, "9" * 10_000, "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.LONG, "1.0", "Not a number of type LONG"),
        (ConfigType.LONG, True, "Expected value to be a 64-bit integer (long), but it was a java.lang.Boolean"),
        (ConfigType.DOUBLE, "\u0663.5", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.STRING, 5, "Expected value to be a string, but it was a java.lang.Integer"),
        (ConfigType.LIST, 5, "Expected a comma separated list."),
    ],
)
def test_parse_errors_have_kafkas_messages(type: ConfigType, given: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value("k", given, type)
    shown = "true" if given is True else given
    assert caught.value.message == f"Invalid value {shown} for configuration k: {reason}"
    assert caught.value.key == "k"


def test_invalid_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value("k", 12345, ConfigType.PASSWORD)
    assert "12345" not in caught.value.message
    assert to_text(Password("x"), ConfigType.PASSWORD) == "[hidden]"
    assert "x" not in f"{Password('x')!r}"


@pytest.mark.parametrize(
    ("rule", "value", "reason"),
    [
        (at_least(1), 0, "Value must be at least 1"),
        (Range(maximum=5), 6, "Value must be no more than 5"),
        (Range(minimum=0.5), None, "Value must be non-null"),
        (one_of("a", "b"), "c", "String must be one of: a, b"),
        (one_of("A", ignore_case=True), "b", "String must be one of (case insensitive): A"),
        (NonEmpty(), "", "String must be non-empty"),
        (AllOf([NonEmpty(), one_of("a")]), "b", "String must be one of: a"),
    ],
)
def test_validators_have_kafkas_messages(rule: Any, value: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule("k", value)
    assert caught.value.message.endswith(f"for configuration k: {reason}")


def test_validators_describe_themselves() -> None:
    shown = [str(rule) for rule in (at_least(1), Range(maximum=5), Range(1, 5), Range(), one_of("a", "b"), NonEmpty())]
    assert shown == ["[1,...]", "[...,5]", "[1,...,5]", "[...]", "[a, b]", "non-empty string"]


def test_validation_reports_every_key_and_every_error() -> None:
    table = (
        ConfigDef()
        .define("required", ConfigType.STRING)
        .define("number", ConfigType.INT, 3, validator=at_least(1), dependents=("lost",))
        .define("old", ConfigType.STRING, "d", aliases=("older",))
    )
    found = {value.name: value for value in table.validate({"number": "x", "older": "v"})}
    assert found["required"].errors == ['Missing required configuration "required" which has no default value.']
    assert len(found["number"].errors) == 2
    assert found["old"].value == "v"
    assert found["lost"].errors == ["lost is referred in the dependents, but not defined."]
    assert not found["lost"].visible


def test_null_counts_as_given_and_missing_key_has_its_default() -> None:
    table = ConfigDef().define("a", ConfigType.INT, 3).define("b", ConfigType.INT, None)
    assert table.parse({}) == {"a": 3, "b": None}
    assert table.parse({"a": None}) == {"a": None, "b": None}


def test_repeated_entries_are_dropped_by_parsing_and_rejected_by_validation() -> None:
    table = ConfigDef().define("k", ConfigType.LIST, validator=DistinctList())
    assert table.parse({"k": "b, a,b"}) == {"k": ["b", "a"]}
    assert table.validate({"k": "b, a,b"})[0].errors == ["Configuration 'k' values must not be duplicated."]
    with pytest.raises(ConfigError, match="Configuration 'k' values must not be empty"):
        table.parse({"k": ","})


def test_defaults_are_checked_when_they_are_defined() -> None:
    with pytest.raises(ConfigError, match="at least"):
        ConfigDef().define("a", ConfigType.INT, 0, validator=at_least(1))
    with pytest.raises(ConfigError, match="defined twice"):
        ConfigDef([ConfigKey("a", ConfigType.INT)]).define("a", ConfigType.INT)


def test_recommenders_see_the_parsed_values() -> None:
    class Doubled(Recommender):
        def valid_values(self, name: str, parsed: Any) -> list[Any]:
            return [parsed["a"] * 2]

    table = ConfigDef().define("a", ConfigType.INT).define("b", ConfigType.INT, 0, recommender=Doubled())
    assert table.validate({"a": "4"})[1].recommended_values == [8]


class Listed(Recommender):
    """Suggests the values of another key, and is shown when it has some."""

    def valid_values(self, name: str, parsed: Any) -> list[Any]:
        if parsed["of"] is None:
            raise ConfigError("of must be there")
        return list(parsed["of"])

    def visible(self, name: str, parsed: Any) -> bool:
        return bool(parsed["of"])


def test_key_that_depends_on_two_is_checked_twice_as_in_kafka() -> None:
    table = (
        ConfigDef()
        .define("a", ConfigType.INT, 1, dependents=("b",))
        .define("b", ConfigType.INT)
        .define("c", ConfigType.INT, 1, dependents=("b",))
    )
    found = {value.name: value.errors for value in table.validate({"b": "q"})}
    assert found == {"a": [], "b": ["Invalid value q for configuration b: Not a number of type INT"] * 2, "c": []}


def test_keys_that_depend_on_each_other_in_a_cycle_are_not_checked() -> None:
    table = ConfigDef().define("a", ConfigType.INT, 1, dependents=("b",)).define("b", ConfigType.INT, 1, dependents=("a",))
    assert [(value.value, value.errors) for value in table.validate({"a": "x"})] == [(None, []), (None, [])]


def test_parsing_fails_if_dependents_are_undefined() -> None:
    table = ConfigDef().define("a", ConfigType.INT, 1, dependents=("z", "y"))
    with pytest.raises(ConfigError) as caught:
        table.parse({})
    assert caught.value.message == "Some configurations in are referred in the dependents, but not defined: y,z"


def test_recommenders_may_raise_and_hide() -> None:
    table = ConfigDef().define("of", ConfigType.LIST, "").define("b", ConfigType.STRING, None, recommender=Listed())
    assert table.validate({})[1].visible is False
    assert table.validate({"of": "x,y"})[1].recommended_values == ["x", "y"]
    assert table.validate({"of": None})[1].errors == ["of must be there"]


def test_embedded_config_def_is_sorted_prefixed_and_numbered() -> None:
    inner = (
        ConfigDef()
        .define("z", ConfigType.INT, 1, importance=Importance.LOW)
        .define("of", ConfigType.LIST, "", group="G", order=1, dependents=("b",))
        .define("b", ConfigType.STRING, None, group="G", order=2, recommender=Listed())
        .define("y", ConfigType.INT, validator=at_least(1))
    )
    outer = ConfigDef().embed("p.", "Outer", 5, inner)
    assert [(key.name, key.group, key.order, key.display_name) for key in outer.keys.values()] == [
        ("p.y", "Outer", 5, "y"),
        ("p.z", "Outer", 6, "z"),
        ("p.of", "Outer: G", 7, "of"),
        ("p.b", "Outer: G", 8, "b"),
    ]
    found = {value.name: value for value in outer.validate({"p.y": "0", "p.of": "u,v"})}
    assert found["p.y"].errors == ["Invalid value 0 for configuration y: Value must be at least 1"]
    assert found["p.b"].recommended_values == ["u", "v"]
    assert outer.keys["p.of"].dependents == ("p.b",)
    assert [key.name for key in inner.sorted_keys()] == ["y", "z", "of", "b"]


def test_removed_key_is_refused_with_what_to_do_instead() -> None:
    table = ConfigDef(removed={"old": "Use new."}).define("new", ConfigType.STRING, "x")
    assert table.parse({}) == {"new": "x"}
    with pytest.raises(ConfigError, match=r"^old no longer exists\. Use new\.$") as caught:
        table.parse({"old": "y"})
    assert caught.value.key == "old"
    assert [(value.name, value.errors) for value in table.validate({"old": "y"})] == [
        ("new", []),
        ("old", ["old no longer exists. Use new."]),
    ]
    assert [value.name for value in table.validate({})] == ["new"]


def test_values_are_formatted_as_in_rest() -> None:
    shown = [to_text(["a", "b"], ConfigType.LIST), to_text(True, ConfigType.BOOLEAN), to_text(1e7, ConfigType.DOUBLE)]
    assert shown == ["a,b", "true", "1.0E7"]

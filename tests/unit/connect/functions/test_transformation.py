"""Plain functions as transformations: what they are given, what becomes of their results, and what is said of what is wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connect import (
    ConfigError,
    ConnectError,
    DataError,
    Header,
    Headers,
    RetriableError,
    Schema,
    SinkRecord,
    SourceRecord,
    Struct,
    Type,
)
from connect.data.logical import FarInstant, timestamp_schema
from connect.plugins import Plugins
from connect.testing import run_transforms
from connect.transforms.chain import Step, apply_steps, apply_steps_batch, build_steps
from tests.unit.connect.functions import shop

SHOP = "tests.unit.connect.functions.shop"


def config(function: str, **settings: str) -> dict[str, str]:
    path = function if ":" in function else f"{SHOP}:{function}"
    own = {f"transforms.f.{key.replace('__', '.')}": value for key, value in settings.items()}
    return {"transforms": "f", "transforms.f.type": "Python", "transforms.f.function": path, **own}


def steps(function: str, **settings: str) -> list[Step]:
    return build_steps(config(function, **settings), Plugins.discover())


def values(function: str, given: Sequence[Any], **settings: str) -> list[Any]:
    results = run_transforms(config(function, **settings), given)
    return [None if record is None else record.value for record in results]


def config_error(function: str, **settings: str) -> str:
    with pytest.raises(ConnectError) as caught:
        steps(function, **settings)
    return caught.value.message


# --- what a function is given


def test_function_of_a_value_changes_values() -> None:
    assert values("trim", [{"name": " a "}, {"name": "b"}]) == [{"name": "a"}, {"name": "b"}]


def test_dates_outside_of_python_years_pass_through_functions() -> None:
    far = FarInstant(1 << 60)
    schema = Schema(Type.STRUCT, fields=[("t", timestamp_schema()), ("n", Schema.INT64)])
    struct = Struct(schema, [far, 1])
    for value_schema, value in ((schema, struct), (timestamp_schema(), far), (None, far)):
        found = apply_steps(steps("same"), SourceRecord({}, {}, "t", value_schema=value_schema, value=value))
        assert found is not None
        assert (found.value_schema, found.value) == (value_schema, value)


def test_function_gets_a_copy_of_the_value() -> None:
    # The worker shows a batch again, record by record, when one of it fails.
    given = [{"tags": [], "inner": {"count": 0}}]
    assert values("tidy", given) == [{"tags": ["seen"], "inner": {"count": 1}}]
    assert given == [{"tags": [], "inner": {"count": 0}}]


def test_function_gets_a_deep_copy_of_the_record() -> None:
    record = SourceRecord({"p": 1}, {"o": 1}, "t", key="k", value={"n": 1}, headers=Headers([Header("a", None, 1)]))
    changed = apply_steps(steps("spoil"), record)
    assert changed is not None
    assert (changed.key, changed.value, len(changed.ensure_headers())) == ("mine", {"n": 2}, 2)
    assert (record.key, record.value, len(record.ensure_headers())) == ("k", {"n": 1}, 1)


def test_function_of_a_record_may_change_or_drop_it() -> None:
    changed = run_transforms(config("route"), ["a", "drop"])
    assert changed[0] is not None
    assert changed[0].topic == "test-a"
    assert changed[1] is None


def test_function_of_a_key_does_not_change_the_value() -> None:
    record = SinkRecord("t", 0, Schema.STRING, "KEY", None, "VALUE", 0)
    changed = run_transforms(config("lower"), [record])[0]
    assert changed is not None
    assert (changed.key_schema, changed.key, changed.value) == (Schema.STRING, "key", "VALUE")


def test_function_takes_overrides_the_parameter_name() -> None:
    assert values("unclear", [1], function__takes="value") == [1]
    assert "names its first parameter row" in config_error("unclear")
    assert "call it record, value, key, records, values or keys, or set function.takes" in config_error("unclear")


@pytest.mark.parametrize("function", ["doubled", "doubled_lazily"])
def test_results_of_a_batch_function_are_matched_by_position(function: str) -> None:
    assert values(function, [1, 2, 3]) == [2, 4, 6]


def test_batch_function_drops_records_with_none() -> None:
    assert values("doubled", [1, 0, 3]) == [2, None, 6]
    assert [None if one is None else one.value for one in run_transforms(config("reversed_records"), [1, None])] == [1, None]


@pytest.mark.parametrize("function", ["trim", "doubled", "lower"])
def test_nulls_pass_functions_of_keys_and_values(function: str) -> None:
    record = SinkRecord("t", 0, None, None, Schema.OPTIONAL_STRING, None, 0)
    assert run_transforms(config(function), [record]) == [record]


def test_batch_of_nulls_does_not_call_the_function() -> None:
    assert run_transforms(config("too_few"), [None])[0] is not None


def test_predicate_selects_the_records_for_a_function() -> None:
    both = {
        **config("doubled", predicate="large"),
        "predicates": "large",
        "predicates.large.type": "Python",
        "predicates.large.function": f"{SHOP}:is_large",
    }
    assert [record and record.value for record in run_transforms(both, [1, 200, 3])] == [1, 400, 3]


# --- settings and state


def test_settings_are_read_by_type_hints_and_underscores_are_dots() -> None:
    assert values("shorten", ["abcdef"]) == ["abc"]
    assert values("shorten", ["abcdef"], max__length="2", **{"from": "1"}) == ["bc"]
    assert values("pair", ["abcdef"], **{"from": "1"}) == ["bc"]


def test_every_supported_type_of_setting_is_parsed() -> None:
    found = values("settings", [1], text="t", ratio="0.5", on="true", words="a, b", mode="b", secret="s3cret", plain="7")[0]
    assert {**found, "secret": found["secret"].value} == {
        "text": "t", "ratio": 0.5, "on": True, "words": ("a", "b"), "mode": "b", "secret": "s3cret", "plain": "7",
    }  # fmt: skip
    assert "s3cret" not in str(found)


def test_function_with_keyword_arguments_gets_all_settings_as_text() -> None:
    assert values("anything", [1], b__c="2", a="x") == [{"a": "x", "b.c": "2"}]


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        ("shorten", {"max__lenght": "2"}, f"{SHOP}:shorten has no setting max.lenght: its settings are max.length, from."),
        ("trim", {"max": "2"}, "has no setting max: it has no settings"),
        ("shorten", {"max__length": "x"}, "Invalid value x for configuration max.length: Not a number of type LONG"),
        ("shorten", {"max__length": "0"}, "Invalid value 0 for configuration max.length: Value must be at least 1"),
        ("settings", {}, 'Missing required configuration "text"'),
        ("settings", {"text": "", "mode": "c"}, "Invalid value c for configuration mode: String must be one of: a, b"),
        (
            "Numbering",
            {"prefix": "", "start": "-1"},
            f"ValueError: start is below 0 (in function {SHOP}:Numbering, {shop.__file__}",
        ),
        ("trim", {"function__takes": "rows"}, "Invalid value rows for configuration function.takes"),
        ("trim", {"function__schema": "avro"}, "Invalid value avro for configuration function.schema: expected infer, keep,"),
        ("trim", {"function__schema": f"{SHOP}:NUMBER"}, "it is a value of type int, expected a connect.Schema"),
    ],
)
def test_invalid_setting_is_rejected(function: str, given: dict[str, str], expected: str) -> None:
    assert expected in config_error(function, **given)


def test_class_is_instantiated_once_per_task_and_closed_once() -> None:
    shop.Numbering.closed.clear()
    first, second = steps("Numbering", prefix="a"), steps("Numbering", prefix="b", start="5")
    record = SinkRecord("t", 0, None, None, None, "v", 0)
    assert [one.value for one in apply_steps_batch(first, [record, record]) if one] == ["a1", "a2"]
    assert [one.value for one in apply_steps_batch(second, [record]) if one] == ["b5"]
    for _ in range(2):
        first[0].transformation.close()
    assert shop.Numbering.closed == ["a"]


# --- what is no function


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{SHOP}:trimm", f"{SHOP} ({shop.__file__}) has no trimm. Did you mean trim?"),
        (f"{SHOP}s:trim", f"there is no module {SHOP}s. Did you mean {SHOP}? Looked in {Path(shop.__file__).parent}"),
        ("nosuchmodule_at_all:f", f"there is no module nosuchmodule_at_all. Looked in {os.getcwd()}"),
        ("shop.trim:", "expected package.module:name"),
        (f"{SHOP}:", "expected package.module:name"),
        (f"{SHOP}:a b", "expected package.module:name"),
        (f"{SHOP}:NUMBER", "it is a value of type int, expected a function or a class"),
        (f"{SHOP}:functools", "functools is a module"),
        (f"{SHOP}:trim.__globals__", "__globals__ is a special name of Python"),
        ("os:system", "os is a module of Python's standard library"),
        ("builtins:eval", "builtins is a module of Python's standard library"),
        ("subprocess:run", "subprocess is a module of Python's standard library"),
        (f"{SHOP}:working_folder", "is a module of Python's standard library, which configurations may not call"),
        (f"{SHOP}:later", "it is async"),
        (f"{SHOP}:nothing", "it takes no argument"),
        (f"{SHOP}:forgetful", "it has no return with a value, so it would return None for every record"),
        (f"{SHOP}:NotCallable", "it is a class without __call__"),
        (f"{SHOP}:clashing", "its parameter predicate has the name of a key that every stage has"),
        (f"{SHOP}:taking", "its parameter function_takes has the name of a key that every stage has"),
        (f"{SHOP}:unusual", "numbers has type list[int], which a setting cannot have; expected str, int"),
    ],
)
def test_invalid_function_is_rejected(path: str, expected: str) -> None:
    assert expected in config_error(path)


def test_failing_import_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_import.py").write_text("x = 1\nraise ValueError('not now')\n")
    (tmp_path / "lacking_import.py").write_text("import nosuchmodule_at_all\n")
    (tmp_path / "broken_syntax.py").write_text("def f(:\n")
    text = config_error("failing_import:f")
    assert f"failing_import cannot be imported: ValueError: not now ({tmp_path / 'failing_import.py'}, line 2)" in text
    assert "lacking_import cannot be imported: ModuleNotFoundError: No module named 'nosuchmodule_at_all'" in config_error(
        "lacking_import:f"
    )
    assert "broken_syntax cannot be imported: SyntaxError" in config_error("broken_syntax:f")


# --- what a function does wrong


def failing_line() -> int:
    return 1 + Path(shop.__file__).read_text("utf-8").splitlines().index("    return 1 / value  # the failing line")


def test_exception_names_the_function_and_its_line() -> None:
    with pytest.raises(DataError) as caught:
        values("divide", [1, 0])
    place = f"{shop.__file__}, line {failing_line()}"
    assert caught.value.message == f"ZeroDivisionError: division by zero (in function {SHOP}:divide, {place})"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_sys_exit_fails_only_the_task() -> None:
    with pytest.raises(DataError, match=f"SystemExit: gone with 1 .in function {SHOP}:leaving"):
        values("leaving", [1])


def test_deeply_nested_result_is_a_data_error() -> None:
    record = SinkRecord("t", 0, None, None, Schema.STRING, "x", 0)
    with pytest.raises(DataError, match="nested too deeply"):
        run_transforms(config("nesting"), [record])


def test_retriable_error_stays_retriable() -> None:
    with pytest.raises(RetriableError, match="the lookup service is away"):
        values("refused", [1])


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (
            "returns",
            "list_in_record",
            "returned a value of type str, expected SinkRecord or None; for a function of values, set",
        ),
        ("returns", "set", "returned a value of type set, expected a value that has a Connect type, or None"),
        ("returns", "generator", "returned a value of type generator, expected a value"),
        ("too_few", 1, "returned 0 results for 1 values: it must return one for each, in order, and None for a dropped record"),
        ("no_list", 1, "returned a value of type dict, expected a list with one result for each of the values"),
    ],
)
def test_invalid_result_is_a_data_error(function: str, given: Any, expected: str) -> None:
    name = "as_record" if given == "list_in_record" else function
    with pytest.raises(DataError) as caught:
        values(name, [given])
    assert expected in caught.value.message


def test_list_of_records_for_one_record_is_rejected() -> None:
    with pytest.raises(DataError, match=r"returned a value of type list.*: a transformation returns one record or None"):
        values("as_record", [[1, 2]])


def test_predicate_must_return_a_boolean() -> None:
    def chosen(function: str, given: list[Any], **settings: str) -> list[Any]:
        own = {f"predicates.p.{key}": value for key, value in settings.items()}
        both = {
            "transforms": "drop", "transforms.drop.type": "Filter", "transforms.drop.predicate": "p",
            "predicates": "p", "predicates.p.type": "Python", "predicates.p.function": f"{SHOP}:{function}", **own,
        }  # fmt: skip
        return [None if record is None else record.value for record in run_transforms(both, given)]

    assert chosen("is_large", [1, 101, None]) == [1, None, None]
    assert chosen("is_from", [1], topic="test") == [None]
    assert chosen("is_from", [1], topic="other") == [1]
    with pytest.raises(DataError, match="is_vague returned a value of type int, expected True or False"):
        chosen("is_vague", [1])
    with pytest.raises(DataError, match=r"AttributeError: 'NoneType' object has no attribute 'missing' .in function"):
        chosen("is_broken", [1])
    with pytest.raises(ConnectError, match=r"call it record, value or key, or set function.takes"):
        chosen("doubled", [1])


def test_missing_function_is_rejected_like_any_missing_key() -> None:
    with pytest.raises(ConfigError, match=r'Missing required configuration "transforms.f.function"'):
        run_transforms({"transforms": "f", "transforms.f.type": "Python"}, [])

"""What expressions give, in both dialects."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from connect.data.headers import Headers
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import DataError
from connect.expressions import GROOVY, JAVASCRIPT, RECORD_VARIABLES, Dialect, compile_expression
from connect.record import SourceRecord

ROW = (
    SchemaBuilder.struct()
    .name("shop.Row")
    .field("id", Schema.INT64)
    .field("name", Schema.OPTIONAL_STRING)
    .field("price", Schema.OPTIONAL_FLOAT64)
    .field("schema", Schema.OPTIONAL_STRING)
    .field("level", SchemaBuilder(Schema.INT32.type).optional().default(7).build())
    .optional()
    .build()
)
ENVELOPE = (
    SchemaBuilder.struct().name("shop.Envelope").field("before", ROW).field("after", ROW).field("op", Schema.STRING).build()
)
AFTER = Struct(ROW, [2, "Anne", 1.5, "public", None])
RECORD = SourceRecord(
    {}, {}, "shop.orders", 3, Schema.STRING, "k", ENVELOPE, Struct(ENVELOPE, [None, AFTER, "u"]), 9,
    Headers().add("h", 1, Schema.INT32).add("h", 2, Schema.INT32).add("when", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
)  # fmt: skip


def _value(source: str, dialect: Dialect = GROOVY, record: SourceRecord = RECORD) -> Any:
    return compile_expression(source, RECORD_VARIABLES, dialect).value(record)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("value.op == 'u' && value.after.id == 2", True),
        ("value.after['id'] + 1", 3),
        ("value.get('after').get('name')", "Anne"),
        ("value.after.getInt64(\"id\") == 2L", True),
        ("value.after.level", 7),
        ("value.after.getWithoutDefault('level')", None),
        ("value.before?.id", None),
        ("value?.before?.name?.toLowerCase() ?: 'none'", "none"),
        ("value.after?['name']", "Anne"),
        ("value.after?.['name']", "Anne"),
        ("value.after.schema", "public"),
        ("value.after.schema().name()", "shop.Row"),
        ("valueSchema.name.endsWith('Envelope') && valueSchema.field('op').schema().type() == 'STRING'", True),
        ("keySchema.type", "STRING"),
        ("key", "k"),
        ("topic + ':' + partition + ':' + timestamp", "shop.orders:3:9"),
        ("header.h.value", 2),
        ("headers['h'].schema.type", "INT32"),
        ("headers.none?.value", None),
        ("header.when.value.getTime() / 1000", 1_704_067_200),
        ("value.after.name in ['Bob', 'Anne']", True),
        ("value.after.id not in [1, 2]", False),
        ("value.after.id !in [1]", True),
        ("value.after.id in 1..3 && !(value.after.id in 3..9)", True),
        ("2 in 1..<2", False),
        ("'op' in value", True),
        ("value.after.name ==~ /A.*e/", True),
        ("value.after.name ==~ 'nn'", False),
        ("value.after.name =~ 'nn' ? 1 : 2", 1),
        ("(value.after.name =~ /(n+)(.)/)[0] + (value.after.name =~ /(n+)(.)/).group(2)", "nnee"),
        ("value.after.name.matches('.*ne')", True),
        ("not value.op == 'd' and (false or true)", True),
        ("true && 'x'", True),
        ("!value.before", True),
        ("[] || ''", False),
        ("value.op == 'u' ? 'updates' : null", "updates"),
        ("value.after ?[1, 2] : 3", [1, 2]),
        ("return topic;", "shop.orders"),
        ("\"${topic.toUpperCase()}-$value.after.name-${\"in ${1 + 1}\"}\"", "SHOP.ORDERS-Anne-in 2"),
        ("'no ${topic}'", "no ${topic}"),
        ("'''it's'''", "it's"),
        (r"'a\'bA\n'", "a'bA\n"),
        ("1_000L + 0x1F + 2G + 3i", 1036),
        ("1.5 == 1.5d && value.after.price == 1.5", True),
        ("1.10 + 2", Decimal("3.10")),
        ("7 / 2", Decimal("3.5")),
        ("8 / 2", 4),
        ("1 / 3", Decimal("0.3333333333")),
        ("-7 % 3", -1),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("1 + 2 * 3 - 4", 3),
        ("10 - 4 - 3", 3),
        ("'a' * 3 + 1", "aaa1"),
        ("'a-b' - '-'", "ab"),
        ("[1] + 2 + [3]", [1, 2, 3]),
        ("null < 0 && !(null > 0)", True),
        ("2 <=> 10", -1),
        ("'1' == 1", False),
        ("true == 1", False),
        ("1 === 1.0", True),
        ("[1, 2][-1]", 2),
        ("[1, 2][5]", None),
        ("'abc'[1]", "b"),
        ("'a,b,,'.split(',').size()", 2),
        ("'a1b22c'.split(/\\d+/).join('-')", "a-b-c"),
        ("'a.b'.replace('.', '-') + 'aXbX'.replaceAll('[X]', '\\\\$') + 'aa'.replaceFirst('a', 'b')", "a-ba$b$ba"),
        ("'Hello'.substring(1, 3) + 'Hello'.take(1) + 'Hello'.drop(4)", "elHo"),
        ("'  x '.trim().padLeft(3, '0').padRight(4)", "00x "),
        ("'12'.toInteger() + '1.5'.toBigDecimal()", Decimal("13.5")),
        ("10 / 31 + ''", "0.3225806452"),
        ("2 % 2.5 + ''", "2"),
        ("'ab'.equalsIgnoreCase('AB') && 'b'.compareTo('a') > 0 && 'x'.isNumber() == false", True),
        ("'a b'.tokenize().first() + 'b'.capitalize() + 'ab'.reverse()", "aBba"),
        ("(new groovy.json.JsonSlurper()).parseText('{\"a\": {\"b\": [1, 2]}}').a.b[1]", 2),
        ("new JsonSlurper().parseText('{}').missing", None),
        ("/* all */ true // yes", True),
    ],
)  # fmt: skip
def test_groovy_expression(source: str, expected: Any) -> None:
    found = _value(source)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("value.op === 'u' && value.after.id === 2", True),
        ("value.after.id == '2'", True),
        ("'a.b.c'.replaceAll('.', '-')", "a-b-c"),
        ("value.after.id === '2'", False),
        ("value.after.missing", None),
        ("value.after.missing == undefined", True),
        ("value.before && value.before.id", None),
        ("value.before || 'none'", "none"),
        ("value.after.id ?? 5", 2),
        ("null ?? undefined ?? 5", 5),
        ("`${topic}-${value.after.price}-${2.0}`", "shop.orders-1.5-2"),
        ('"no ${topic}"', "no ${topic}"),
        ("/^a/i.test(value.after.name)", True),
        ("value.after.name.match(/(n+)(.)/)[2]", "e"),
        ("'a1b2'.match(/\\d/g).length", 2),
        ("'x'.match(/y/)", None),
        ("'a-b-c'.replace('-', '+') + 'a-b-c'.replace(/-/g, '+')", "a+b-ca+b+c"),
        ("'a.b'.split('.').length + 'ab'.split('').length", 4),
        ("topic.includes('order') && topic.indexOf('shop') === 0", True),
        ("parseInt('12px') + Number('3') + parseFloat('1.5x')", 16.5),
        ("isNaN(Number('x'))", True),
        ("7 / 2", 3.5),
        ("'5' * 2", 10),
        ("'5' + 2", "52"),
        ("1 / 0", math.inf),
        ("-7 % 3", -1),
        ("null < 5", True),
        ("'10' < 9", False),
        ("[] ? 1 : 2", 1),
        ("'' ? 1 : 2", 2),
        ("0 == '' && true == 1", True),
        ("'abc'.substring(2, 0) + 'abc'.slice(-1)", "abc"),
        ("JSON.parse('{\"a\": 1}').a", 1),
        ("'abc'.charAt(9)", ""),
        ("String(1.0) + Boolean('x')", "1true"),
        ("1 < 2 < 3", True),
    ],
)
def test_javascript_expression(source: str, expected: Any) -> None:
    found = _value(source, JAVASCRIPT)
    assert found == expected
    assert type(found) is type(expected)


def test_maps_are_read_like_structs() -> None:
    record = SourceRecord({}, {}, "t", value={"op": "c", "after": {"id": 1, "tags": ["a"]}})
    assert _value("value.op == 'c' && value.after.id == 1 && value.after.tags[0] == 'a'", record=record) is True
    assert _value("value.none", record=record) is None
    assert _value("value.after.containsKey('id') && value.after.keySet().size() == 2", record=record) is True
    assert _value("value.after.get('x') ?: value.after.getOrDefault('x', 'y')", record=record) == "y"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("value.before.id", r"value\.before is null, so value\.before\.id cannot be read; use value\.before\?\.id to get null"),
        ("value.before.name.trim()", r"value\.before is null"),
        ("value.before['id']", r"value\.before is null"),
        ("value.before.toString()", r"value\.before is null, so it has no methods"),
        ("value.after.nme", r"shop.Row has no field nme \(did you mean name\?\); fields: id, name, price"),
        ("value.after.get('nme')", "has no field nme"),
        ("value.op < 3", "text and a number cannot be ordered, in value.op < 3"),
        ("value.after.and", "no field and"),
        ("value.after - 1", "a struct - a number is not supported, in value.after - 1"),
        ("1 / 0", "division by zero, in 1 / 0"),
        ("1 % 0", "division by zero"),
        ("'abc'.substring(2, 9)", "2 to 9 is out of range; the text length is 3"),
        ("'abc'[7]", "index 7 is out of range; the text length is 3"),
        ("value.size()", "a struct has no method size"),
        ("topic.foo", "text has no property foo"),
        ("topic.startsWith(1)", "the argument must be text, not a number"),
        ("'x'.toInteger()", "x is not a number"),
        ("1 in 'a1'", "use .contains\\(\\) to search text"),
        ("5 ==~ /5/", "only text can be matched, not a number"),
        ("topic.matches(value.op + '(')", "cannot be used"),
        ("JSON.parse('{')", "not JSON"),
        ("[1].get(3)", "index 3 is out of range; the list size is 1"),
        ("'a' * 2000000", "text would have 2000000 characters"),
        ("'a'.padLeft(2000000)", "text would have"),
        ("('a' * 1000000) + 'b'", "1000001 characters"),
        ("('a' * 10000).replace('a', 'b' * 10000)", "text would have"),
        ("('a' * 10000).replaceAll('a', 'b' * 10000)", "text would have"),
        ("[('a' * 1000000), ('a' * 1000000)].join()", "text would have"),
        ("\"${'a' * 1000000}${'a' * 1000000}\"", "text would have"),
        ("(',' * 20000).split('')", "list would have 20000 elements"),
        ("10 ** 5000", "number would have .* bits"),
        ("2 ** 4000 * 2 ** 4000", "number would have .* bits"),
    ],
)
def test_failing_expression_names_the_part(source: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        _value(source)
    assert "failed for this record" in caught.value.message


def test_condition_must_be_boolean() -> None:
    assert compile_expression("value.op == 'u'", RECORD_VARIABLES).holds(RECORD) is True
    for source, shown in (("value.op", "'u'"), ("null", "null"), ("1", "'1'")):
        with pytest.raises(DataError, match=f"returns {shown} for this record"):
            compile_expression(source, RECORD_VARIABLES).holds(RECORD)


def test_expression_reads_records_with_changing_schemas() -> None:
    expression = compile_expression("value.op", RECORD_VARIABLES)
    other = SchemaBuilder.struct().field("x", Schema.STRING).field("op", Schema.STRING).build()
    for _ in range(2):
        assert expression.value(RECORD) == "u"
        assert expression.value(SourceRecord({}, {}, "t", value_schema=other, value=Struct(other, ["x", "y"]))) == "y"
        assert expression.value(SourceRecord({}, {}, "t", value={"op": "z"})) == "z"


def test_variables_can_be_read_from_any_subject() -> None:
    expression = compile_expression("row.a + limit", {"row": lambda subject: subject, "limit": lambda _: 5})
    assert expression.value({"a": 1}) == 6

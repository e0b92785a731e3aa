from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connect.java.regex import RegexError, compile_java_regex
from connect.java.regex_replacement import compile_replacement


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\w+", "é", False),
        (r"\d+", "١٢", False),
        (r"(?U)\w+", "é", True),
        (".", "\u2028", False),
        ("(?s).", "\u2028", True),
        ("(?d).", "\u2028", True),
        ("[a-z&&[^aeiou]]+", "bcd", True),
        ("[a-z&&[^aeiou]]+", "bad", False),
        ("[a-c[x-z]]+", "ay", True),
        (r"[^\w&&[^_]]", "_", True),
        (r"[\]\[]+", "][", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b\E", "axb", False),
        (r"\p{Lower}+", "é", False),
        (r"\p{javaLowerCase}+", "é", True),
        (r"\p{IsGreek}+\P{IsGreek}", "αβx", True),
        (r"\p{L}\pN", "é5", True),
        (r"\h\v\R", "\u3000\x0b\r\n", True),
        (r"a++ab", "aaab", False),
        (r"(?>a+)b", "aab", True),
        ("(?i)straße", "STRAßE", True),
        (r"\uD83D\ude00{2}", "😀😀", True),
        (r"[\uD83D\uDE00-\uD83D\uDE04]", "😂", True),
        (r"\u0041\u0042", "AB", True),
        (r"\B", "", True),
        (r"\B.\b", "", False),
        ("(?i)é", "É", False),
        ("(?iu)é", "É", True),
        ("a(?i)b|c", "C", True),
        ("a(?i)b|c", "Ab", False),
        ("(?i:a)b", "AB", False),
        ("(?i)[^a]", "A", False),
        ("(?x) a b # text", "ab", True),
        ("(?<=x{1,3})y|.*y", "xxy", True),
        (r"a\Z", "a\n", False),
        (r"\x41\u0042\x{43}\0104\cA", "ABCD\x01", True),
        (r"(?<q>a)\k<q>\1", "aaa", True),
        (r"(a)\11", "aa1", True),
        ("a{2,3}", "aaaa", False),
        ("]}", "]}", True),
        (r"\N{LATIN SMALL LETTER A}", "a", True),
        (r"\b\w+\b", "abc", True),
    ],
)
def test_pattern_matches_as_in_java(pattern: str, text: str, matches: bool) -> None:
    assert (compile_java_regex(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?<=a|bc)x", "bcx", "x"),
        ("(?<=a{1,2}b?)x", "aabx", "x"),
        ("(?<!a{1,2})x", "aax", None),
        ("(?m)^b$", "a\r\nb\r\nc", "b"),
        ("b$", "ab\n", "b"),
        ("(?m)^", "", ""),
    ],
)
def test_pattern_finds_as_in_java(pattern: str, text: str, found: str | None) -> None:
    match = compile_java_regex(pattern).search(text)
    assert (None if match is None else match[0]) == found


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)",
        "*",
        "a**",
        "a{,3}",
        "a{3,2}",
        "{",
        r"\p{Foo}",
        "(?P<n>a)",
        "(?<n_1>a)",
        "(?#x)",
        "[a",
        "[z-a]",
        r"\y",
        "(?<=a*)b",
    ],
)
def test_pattern_that_java_rejects_is_rejected(pattern: str) -> None:
    with pytest.raises(RegexError):
        compile_java_regex(pattern)


@given(st.text("ab()[]{}*+?|\\^$.&-<>=!:ipQExdwN01,", max_size=12))
def test_any_text_compiles_or_is_rejected(pattern: str) -> None:
    with contextlib.suppress(RegexError):
        compile_java_regex(pattern).fullmatch("ab")


@pytest.mark.parametrize(
    ("pattern", "replacement", "text", "result"),
    [
        ("(x)", "$12", "x", "x2"),
        ("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "$11", "abcdefghijk", "k"),
        ("(?<n>x)", "[${n}]", "x", "[x]"),
        ("(x)?(y)", "[$1]$2", "y", "[]y"),
        ("(x)", r"\$1\\\n", "x", "$1\\n"),
        ("a|ab", "m", "ab", "mb"),
    ],
)
def test_replacement_is_expanded_as_in_java(pattern: str, replacement: str, text: str, result: str) -> None:
    compiled = compile_java_regex(pattern)
    assert compile_replacement(replacement, compiled).replace_first(compiled, text) == result


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        ("$2", "No group 2"),
        ("${zz}", r"No group with name \{zz\}"),
        ("${", "named capturing group has 0 length name"),
        ("${1}", r"capturing group name \{1\} starts with digit character"),
        ("${n", "named capturing group is missing trailing '}'"),
        ("$x", "Illegal group reference"),
        ("$", "Illegal group reference: group index is missing"),
        ("\\", "character to be escaped is missing"),
    ],
)
def test_invalid_replacement_fails_only_if_the_pattern_matches(replacement: str, message: str) -> None:
    pattern = compile_java_regex("(x)")
    compiled = compile_replacement(replacement, pattern)
    assert compiled.replace_first(pattern, "y") == "y"
    with pytest.raises(DataError, match=message):
        compiled.replace_first(pattern, "x")

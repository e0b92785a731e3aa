"""Parser of JAAS login configuration files: the login modules of each entry, with their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from connect.errors import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/
      | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
      | (?P<mark>[{};=]) | (?P<word>[^\s{};="']+) | (?P<wrong>.)""",
    re.X | re.S,
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: class, flag (required, requisite, sufficient, optional), options."""

    class_name: str
    flag: str
    options: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    is_mark: bool


def parse_jaas(text: str) -> dict[str, list[LoginModule]]:
    """Returns all entries of a file. Raises ConfigError that names the line but never a value."""
    tokens = list(_tokens(text))
    entries: dict[str, list[LoginModule]] = {}
    at = 0

    def take(expected: str | None) -> str:
        nonlocal at
        if at >= len(tokens):
            raise ConfigError(f"the file ends where {_expected_text(expected)} is expected")
        token = tokens[at]
        if (token.text != expected or not token.is_mark) if expected else token.is_mark:
            raise ConfigError(f"line {token.line}: expected {_expected_text(expected)}")
        at += 1
        return token.text

    def is_next(mark: str) -> bool:
        return at < len(tokens) and tokens[at].is_mark and tokens[at].text == mark

    while at < len(tokens):
        name = take(None)
        take("{")
        modules = []
        while not is_next("}"):
            class_name, flag = take(None), take(None).lower()
            if flag not in _FLAGS:
                raise ConfigError(f"line {tokens[at - 1].line}: expected one of {', '.join(_FLAGS)} after {class_name}")
            options = {}
            while not is_next(";"):
                key = take(None)
                take("=")
                options[key] = take(None)
            take(";")
            modules.append(LoginModule(class_name, flag, options))
        take("}")
        take(";")
        entries[name] = modules
    return entries


def _expected_text(expected: str | None) -> str:
    return f"'{expected}'" if expected else "a name or a value"


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match["wrong"] is not None:
            raise ConfigError(f"line {line}: unterminated quoted string")
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            yield _Token(re.sub(r"\\(.)", r"\1", quoted), line, False)
        elif (found := match["mark"] or match["word"]) is not None:
            yield _Token(found, line, match["mark"] is not None)
        line += match[0].count("\n")

"""Splits an expression into tokens with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from connect.expressions.errors import ExpressionError

MAX_EXPRESSION_LENGTH = 20_000
"""Maximum number of characters of an expression."""
_MAX_TEMPLATES = 8
"""Levels of nested templates."""
_MAX_DIGITS = 400

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.S)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F](?:_?[0-9a-fA-F])*)"
    r"|(?P<whole>\d(?:_?\d)*)(?P<fraction>\.\d(?:_?\d)*)?(?P<exponent>[eE][+-]?\d+)?)(?P<suffix>[lLiIgGdDfFn])?(?![\w$])"
)
_SYMBOLS = (
    "===", "!==", "==~", "<=>", "..<", "**", "==", "!=", "=~", "<=", ">=", "&&", "||", "?.", "?:", "?[", "??", "..",
    "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", "(", ")", "[", "]", ",", ".", ";", "~", "=", "{", "}", "&", "|", "^", "@",
)  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_VALUE_ENDS = (")", "]")


class TokenKind(Enum):
    """The kind of a token; the value is its name in errors."""

    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    TEMPLATE = "template"
    REGEX = "regular expression"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token. ``value`` is the name or symbol, the number, the text, the parts of a template (texts and lists of tokens), or the
    pattern and flags of a regular expression."""

    kind: TokenKind
    value: Any
    start: int
    end: int

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.value in symbols

    def is_word(self, *words: str) -> bool:
        return self.kind is TokenKind.NAME and self.value in words


def tokenize(source: str, *, double_quotes_are_templates: bool) -> list[Token]:
    """Returns all tokens; the last one is END. Raises ExpressionError."""
    if len(source) > MAX_EXPRESSION_LENGTH:
        raise ExpressionError(source, 0, f"the expression has {len(source)} characters; the limit is {MAX_EXPRESSION_LENGTH}")
    return _Lexer(source, double_quotes_are_templates).read_tokens()


class _Lexer:
    def __init__(self, source: str, double_quotes_are_templates: bool) -> None:
        self._source = source
        self._position = 0
        self._templates = '`"' if double_quotes_are_templates else "`"

    def read_tokens(self, depth: int = 0) -> list[Token]:
        """Reads tokens up to the end; in a template, up to and including the brace that closes a placeholder."""
        found: list[Token] = []
        while True:
            space = _SPACE.match(self._source, self._position)
            if space is not None:
                self._position = space.end()
            start = self._position
            if start >= len(self._source):
                if depth:
                    raise self._error(start, "a placeholder ${ is not closed: } is missing")
                return [*found, Token(TokenKind.END, "", start, start)]
            if depth and self._source[start] == "}":
                self._position += 1
                return [*found, Token(TokenKind.END, "}", start, start)]
            found.append(self._read_token(found[-1] if found else None, depth))

    def _error(self, position: int, problem: str) -> ExpressionError:
        return ExpressionError(self._source, position, problem)

    def _read_token(self, before: Token | None, depth: int) -> Token:
        start, char = self._position, self._source[self._position]
        name = _NAME.match(self._source, start)
        if name is not None:
            self._position = name.end()
            return Token(TokenKind.NAME, name[0], start, self._position)
        if char.isdigit():
            return self._read_number(start)
        if char in "'\"`":
            return self._read_text(start, char, depth)
        if char == "/" and not _ends_value(before):
            return self._read_regex(start)
        for symbol in _SYMBOLS:
            if self._source.startswith(symbol, start):
                self._position = start + len(symbol)
                return Token(TokenKind.SYMBOL, symbol, start, self._position)
        raise self._error(start, f"unexpected character {char!r}")

    def _read_number(self, start: int) -> Token:
        found = _NUMBER.match(self._source, start)
        if found is None:
            end = re.compile(r"[\w$]+").match(self._source, start)
            raise self._error(start, f"{end[0] if end else self._source[start]} is not a number")
        self._position = found.end()
        suffix = (found["suffix"] or "").lower()
        value: int | float | Decimal
        if found["hex"]:
            value = int(found["hex"].replace("_", ""), 16)
        else:
            text = (found["whole"] + (found["fraction"] or "") + (found["exponent"] or "")).replace("_", "")
            if len(text) > _MAX_DIGITS or len(found["exponent"] or "") > 5:
                raise self._error(start, f"the number has too many digits; the limit is {_MAX_DIGITS}")
            if suffix in ("d", "f"):
                value = float(text)
            elif found["fraction"] or found["exponent"]:
                value = Decimal(text)
            else:
                value = int(text)
        return Token(TokenKind.NUMBER, value, start, self._position)

    def _read_regex(self, start: int) -> Token:
        """Reads ``/pattern/flags``; a slash in the pattern is escaped by a backslash."""
        found = re.compile(r"/((?:[^/\\\n]|\\.)+)/([a-z]*)").match(self._source, start)
        if found is None:
            raise self._error(start, "the regular expression is not closed: / is missing")
        self._position = found.end()
        return Token(TokenKind.REGEX, (found[1].replace("\\/", "/"), found[2]), start, self._position)

    def _read_text(self, start: int, quote: str, depth: int) -> Token:
        triple = quote != "`" and self._source.startswith(quote * 3, start)
        closing = quote * 3 if triple else quote
        self._position = start + len(closing)
        parts: list[str | list[Token]] = []
        text: list[str] = []
        placeholders = quote in self._templates
        while not self._source.startswith(closing, self._position):
            if self._position >= len(self._source) or (self._source[self._position] == "\n" and not triple and quote != "`"):
                raise self._error(start, f"the text is not closed: {closing} is missing")
            char = self._source[self._position]
            if char == "\\":
                text.append(self._read_escape())
            elif char == "$" and placeholders and self._is_placeholder_next(quote):
                parts.extend(["".join(text), self._read_placeholder(start, depth)])
                text = []
            else:
                text.append(char)
                self._position += 1
        self._position += len(closing)
        if not parts:
            return Token(TokenKind.TEXT, "".join(text), start, self._position)
        return Token(TokenKind.TEMPLATE, [*parts, "".join(text)], start, self._position)

    def _read_escape(self) -> str:
        position = self._position
        char = self._source[position + 1 : position + 2]
        if char == "u":
            digits = self._source[position + 2 : position + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise self._error(position, r"\u needs four hexadecimal digits")
            self._position += 6
            return chr(int(digits, 16))
        self._position += 2
        return _ESCAPES.get(char, char)

    def _is_placeholder_next(self, quote: str) -> bool:
        following = self._source[self._position + 1 : self._position + 2]
        return following == "{" or (quote == '"' and (following.isalpha() or following == "_"))

    def _read_placeholder(self, start: int, depth: int) -> list[Token]:
        if depth >= _MAX_TEMPLATES:
            raise self._error(start, f"too many nested templates; the limit is {_MAX_TEMPLATES}")
        if self._source[self._position + 1] == "{":
            self._position += 2
            return self.read_tokens(depth + 1)
        # "$name.other": as many names and dots as follow.
        self._position += 1
        found: list[Token] = []
        while True:
            name = re.compile(r"[^\W\d]\w*").match(self._source, self._position)
            assert name is not None
            found.append(Token(TokenKind.NAME, name[0], self._position, name.end()))
            self._position = name.end()
            if re.compile(r"\.[^\W\d]").match(self._source, self._position) is None:
                return [*found, Token(TokenKind.END, "", self._position, self._position)]
            found.append(Token(TokenKind.SYMBOL, ".", self._position, self._position + 1))
            self._position += 1


def _ends_value(token: Token | None) -> bool:
    """Whether a value ends with this token, so that a slash after it is a division."""
    if token is None:
        return False
    if token.kind is TokenKind.NAME:
        return token.value not in ("return", "in", "and", "or", "not")
    return token.kind is not TokenKind.SYMBOL or token.value in _VALUE_ENDS

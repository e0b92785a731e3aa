"""The tokens of an expression, with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from connect.expressions.errors import ExpressionError

MAX_EXPRESSION_LENGTH = 20_000
"""Characters an expression may have."""
_MAX_TEMPLATES = 8
"""Templates within templates."""
_MAX_DIGITS = 400

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.S)
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F](?:_?[0-9a-fA-F])*)"
    r"|(?P<whole>\d(?:_?\d)*)(?P<fraction>\.\d(?:_?\d)*)?(?P<exponent>[eE][+-]?\d+)?)(?P<suffix>[lLiIgGdDfFn])?(?![\w$])"
)
_SIGNS = (
    "===", "!==", "==~", "<=>", "..<", "**", "==", "!=", "=~", "<=", ">=", "&&", "||", "?.", "?:", "?[", "??", "..",
    "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", "(", ")", "[", "]", ",", ".", ";", "~", "=", "{", "}", "&", "|", "^", "@",
)  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_VALUE_ENDS = (")", "]")


class TokenKind(Enum):
    """What a token is, as errors call it."""

    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    TEMPLATE = "template"
    REGEX = "regular expression"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """``value`` is the name or sign, the number, the text, the parts of a template (texts and lists of tokens), or the pattern
    and flags of a regular expression."""

    kind: TokenKind
    value: Any
    start: int
    end: int

    def is_symbol(self, *signs: str) -> bool:
        return self.kind is TokenKind.SIGN and self.value in signs

    def is_word(self, *words: str) -> bool:
        return self.kind is TokenKind.NAME and self.value in words


def tokenize(source: str, *, double_quotes_are_templates: bool) -> list[Token]:
    """All tokens, the last of them END. Raises ExpressionError."""
    if len(source) > MAX_EXPRESSION_LENGTH:
        raise ExpressionError(source, 0, f"the expression has {len(source)} characters; {MAX_EXPRESSION_LENGTH} are the most")
    return _Lexer(source, double_quotes_are_templates).tokens()


class _Lexer:
    def __init__(self, source: str, double_quotes_are_templates: bool) -> None:
        self._source = source
        self._at = 0
        self._templates = '`"' if double_quotes_are_templates else "`"

    def tokens(self, depth: int = 0) -> list[Token]:
        """Up to the end, or, in a template, up to the brace that closes a placeholder (which is taken)."""
        found: list[Token] = []
        while True:
            space = _SPACE.match(self._source, self._at)
            if space is not None:
                self._at = space.end()
            start = self._at
            if start >= len(self._source):
                if depth:
                    raise self._error(start, "a placeholder ${ is not closed: there is no }")
                return [*found, Token(TokenKind.END, "", start, start)]
            if depth and self._source[start] == "}":
                self._at += 1
                return [*found, Token(TokenKind.END, "}", start, start)]
            found.append(self._token(found[-1] if found else None, depth))

    def _error(self, at: int, problem: str) -> ExpressionError:
        return ExpressionError(self._source, at, problem)

    def _token(self, before: Token | None, depth: int) -> Token:
        start, char = self._at, self._source[self._at]
        name = _NAME.match(self._source, start)
        if name is not None:
            self._at = name.end()
            return Token(TokenKind.NAME, name[0], start, self._at)
        if char.isdigit():
            return self._number(start)
        if char in "'\"`":
            return self._quoted(start, char, depth)
        if char == "/" and not _ends_value(before):
            return self._slashed(start)
        for sign in _SIGNS:
            if self._source.startswith(sign, start):
                self._at = start + len(sign)
                return Token(TokenKind.SIGN, sign, start, self._at)
        raise self._error(start, f"the character {char!r} has no meaning here")

    def _number(self, start: int) -> Token:
        found = _NUMBER.match(self._source, start)
        if found is None:
            end = re.compile(r"[\w$]+").match(self._source, start)
            raise self._error(start, f"{end[0] if end else self._source[start]} is no number")
        self._at = found.end()
        suffix = (found["suffix"] or "").lower()
        value: int | float | Decimal
        if found["hex"]:
            value = int(found["hex"].replace("_", ""), 16)
        else:
            text = (found["whole"] + (found["fraction"] or "") + (found["exponent"] or "")).replace("_", "")
            if len(text) > _MAX_DIGITS or len(found["exponent"] or "") > 5:
                raise self._error(start, f"the number has too many digits; {_MAX_DIGITS} are the most")
            if suffix in ("d", "f"):
                value = float(text)
            elif found["fraction"] or found["exponent"]:
                value = Decimal(text)
            else:
                value = int(text)
        return Token(TokenKind.NUMBER, value, start, self._at)

    def _slashed(self, start: int) -> Token:
        """``/pattern/flags``: a slash within it has a backslash before it."""
        found = re.compile(r"/((?:[^/\\\n]|\\.)+)/([a-z]*)").match(self._source, start)
        if found is None:
            raise self._error(start, "a / that begins a regular expression needs one that ends it")
        self._at = found.end()
        return Token(TokenKind.REGEX, (found[1].replace("\\/", "/"), found[2]), start, self._at)

    def _quoted(self, start: int, quote: str, depth: int) -> Token:
        triple = quote != "`" and self._source.startswith(quote * 3, start)
        closing = quote * 3 if triple else quote
        self._at = start + len(closing)
        parts: list[str | list[Token]] = []
        text: list[str] = []
        placeholders = quote in self._templates
        while not self._source.startswith(closing, self._at):
            if self._at >= len(self._source) or (self._source[self._at] == "\n" and not triple and quote != "`"):
                raise self._error(start, f"a text that begins with {closing} needs {closing} at its end")
            char = self._source[self._at]
            if char == "\\":
                text.append(self._escape())
            elif char == "$" and placeholders and self._placeholder_is_next(quote):
                parts.extend(["".join(text), self._placeholder(start, depth)])
                text = []
            else:
                text.append(char)
                self._at += 1
        self._at += len(closing)
        if not parts:
            return Token(TokenKind.TEXT, "".join(text), start, self._at)
        return Token(TokenKind.TEMPLATE, [*parts, "".join(text)], start, self._at)

    def _escape(self) -> str:
        at = self._at
        char = self._source[at + 1 : at + 2]
        if char == "u":
            digits = self._source[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise self._error(at, r"\u needs four hexadecimal digits")
            self._at += 6
            return chr(int(digits, 16))
        self._at += 2
        return _ESCAPES.get(char, char)

    def _placeholder_is_next(self, quote: str) -> bool:
        following = self._source[self._at + 1 : self._at + 2]
        return following == "{" or (quote == '"' and (following.isalpha() or following == "_"))

    def _placeholder(self, start: int, depth: int) -> list[Token]:
        if depth >= _MAX_TEMPLATES:
            raise self._error(start, f"more than {_MAX_TEMPLATES} templates are nested")
        if self._source[self._at + 1] == "{":
            self._at += 2
            return self.tokens(depth + 1)
        # "$name.other": names and dots, as far as they go.
        self._at += 1
        found: list[Token] = []
        while True:
            name = re.compile(r"[^\W\d]\w*").match(self._source, self._at)
            assert name is not None
            found.append(Token(TokenKind.NAME, name[0], self._at, name.end()))
            self._at = name.end()
            if re.compile(r"\.[^\W\d]").match(self._source, self._at) is None:
                return [*found, Token(TokenKind.END, "", self._at, self._at)]
            found.append(Token(TokenKind.SIGN, ".", self._at, self._at + 1))
            self._at += 1


def _ends_value(token: Token | None) -> bool:
    """Whether a value ends with this token, so that a slash after it divides."""
    if token is None:
        return False
    if token.kind is TokenKind.NAME:
        return token.value not in ("return", "in", "and", "or", "not")
    return token.kind is not TokenKind.SIGN or token.value in _VALUE_ENDS

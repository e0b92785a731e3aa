"""Tokens of a statement, by sqlglot's tokenizer, and a cursor over them.

sqlglot's own grammar is not used: of MySQL's and MariaDB's DDL it replaces type names by its own, drops clauses silently, or
returns the whole statement as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.errors import DdlSyntaxError

_COMMENT_MARKS = {"/*!": TokenType.HINT, "/*M!": TokenType.HINT, "/*m!": TokenType.HINT, "*/": TokenType.HINT}


class _Tokenizer(MySQL.Tokenizer):
    """Without keywords: any word may be a name, and the parser knows where it is not."""

    KEYWORDS = _COMMENT_MARKS
    COMMANDS = set()


class _AnsiTokenizer(_Tokenizer):
    QUOTES = ["'"]
    IDENTIFIERS = ["`", '"']


class _PlainTokenizer(_Tokenizer):
    STRING_ESCAPES = ["'", '"']


class _AnsiPlainTokenizer(_AnsiTokenizer):
    STRING_ESCAPES = ["'", '"']


_TOKENIZERS: Final[dict[tuple[bool, bool], type[MySQL.Tokenizer]]] = {
    (False, False): _Tokenizer,
    (True, False): _AnsiTokenizer,
    (False, True): _PlainTokenizer,
    (True, True): _AnsiPlainTokenizer,
}
"""By ANSI_QUOTES and NO_BACKSLASH_ESCAPES."""


class TokenKind(Enum):
    WORD = "word"
    """A keyword or a name without quotes."""
    NAME = "name"
    """A quoted name."""
    STRING = "string"
    NUMBER = "number"
    HEX = "hex"
    """Hexadecimal digits."""
    BITS = "bits"
    """Binary digits."""
    SYMBOL = "symbol"


_KINDS = {
    TokenType.VAR: TokenKind.WORD,
    TokenType.IDENTIFIER: TokenKind.NAME,
    TokenType.STRING: TokenKind.STRING,
    TokenType.NATIONAL_STRING: TokenKind.STRING,
    TokenType.NUMBER: TokenKind.NUMBER,
    TokenType.HEX_STRING: TokenKind.HEX,
    TokenType.BIT_STRING: TokenKind.BITS,
}


@dataclass(frozen=True, slots=True)
class DdlToken:
    """``text`` is without quotes and escapes; ``upper`` is the keyword that a word may be, else empty or the symbol."""

    kind: TokenKind
    text: str
    upper: str
    start: int
    end: int
    """Where it begins, and where the next character is."""


def tokenize(text: str, context: DdlContext) -> list[DdlToken]:
    """Returns the tokens, without comments and with the content of executable comments that the server executes.

    Raises DdlSyntaxError for text that no server accepts.
    """
    tokenizer = _TOKENIZERS[context.has_ansi_quotes, context.has_plain_backslashes]
    try:
        found = tokenizer(dialect="mysql").tokenize(text)
    except TokenError as e:
        raise DdlSyntaxError("a quote or a comment is not closed") from e
    return list(_executed(found, text, context))


_VERSION = re.compile(r"(\d{6}|\d{5})(?!\d)(.*)", re.DOTALL)


def _executed(found: Sequence[SqlglotToken], text: str, context: DdlContext) -> Iterable[DdlToken]:
    inside: list[bool] = []  # for each open executable comment, whether it is executed
    index = 0
    while index < len(found):
        token = found[index]
        index += 1
        if token.token_type is not TokenType.HINT:
            if all(inside):
                yield _converted(token, text)
            continue
        if token.text != "*/":
            version, rest = None, ""
            if index < len(found) and found[index].start == token.end + 1 and (match := _VERSION.fullmatch(found[index].text)):
                version, rest = int(match[1]), match[2]
                following = found[index]
                index += 1
            executed = context.executes(version, is_mariadb_comment="M" in token.text.upper())
            inside.append(executed)
            if rest and all(inside):
                yield DdlToken(TokenKind.WORD, rest, rest.upper(), following.end + 1 - len(rest), following.end + 1)
        elif inside:
            inside.pop()
        elif all(inside):
            for offset, symbol in enumerate(token.text):  # an operator before another
                yield DdlToken(TokenKind.SYMBOL, symbol, symbol, token.start + offset, token.start + offset + 1)
    if inside:
        raise DdlSyntaxError("an executable comment is not closed")


def _converted(token: SqlglotToken, text: str) -> DdlToken:
    kind = _KINDS.get(token.token_type, TokenKind.SYMBOL)
    if kind is TokenKind.NAME and text[token.start] not in '`"':
        kind = TokenKind.WORD  # like 0xZ, which is no number
    upper = token.text.upper() if kind in (TokenKind.WORD, TokenKind.SYMBOL) else ""
    return DdlToken(kind, token.text, upper, token.start, token.end + 1)


_END: Final = DdlToken(TokenKind.SYMBOL, "", "", -1, -1)


class Cursor:
    """Reads the tokens of one statement. Methods that begin with ``accept`` consume only what they return True or a value for."""

    def __init__(self, tokens: Sequence[DdlToken], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def position(self) -> int:
        return self._at

    def rewind(self, position: int) -> None:
        self._at = position

    def peek(self, ahead: int = 0) -> DdlToken:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def next(self) -> DdlToken:
        if self.at_end:
            raise DdlSyntaxError("the statement ends too early")
        token = self._tokens[self._at]
        self._at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Returns whether these keywords or symbols follow."""
        return all(self.peek(i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Consumes these keywords or symbols if all of them follow."""
        if self.sees(*words):
            self._at += len(words)
            return True
        return False

    def accept_one(self, *words: str) -> str | None:
        """Consumes one of these, and returns it."""
        upper = self.peek().upper
        if upper and upper in words:
            self._at += 1
            return upper
        return None

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))

    def unexpected(self, expected: str) -> DdlSyntaxError:
        """Returns the error for what follows."""
        found = "the end" if self.at_end else f"{self._text[self.peek().start : self.peek().end]!r}"
        return DdlSyntaxError(f"{expected} expected, found {found}")

    def name(self) -> str:
        """Consumes the name of a column, table, or the like."""
        token = self.peek()
        if token.kind in (TokenKind.WORD, TokenKind.NAME):
            return self.next().text
        if token.kind in (TokenKind.HEX, TokenKind.BITS, TokenKind.NUMBER):
            raw = self._text[token.start : token.end]
            follows_dot = self._at > 0 and self._tokens[self._at - 1].upper == "."
            if raw[0].isdigit() and (follows_dot or not raw.isdigit()):  # like 0b1 or 1e5
                self.next()
                return raw
        raise self.unexpected("a name")

    def string(self) -> str:
        """Consumes a string, or strings beside each other, which are one."""
        if self.peek().kind is not TokenKind.STRING:
            raise self.unexpected("a string")
        parts = [self.next().text]
        while self.peek().kind is TokenKind.STRING:
            parts.append(self.next().text)
        return "".join(parts)

    def number(self) -> int:
        token = self.peek()
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            raise self.unexpected("a number")
        return int(self.next().text)

    def skip_parentheses(self) -> None:
        """Consumes a pair of parentheses and what is between them."""
        self.expect("(")
        depth = 1
        while depth:
            symbol = self.next().upper
            depth += (symbol == "(") - (symbol == ")")

    def skip_until(self, is_end: Callable[[DdlToken], bool]) -> None:
        """Consumes tokens, and whole parentheses, up to one that is an end, the closing parenthesis, or the statement's end."""
        while not self.at_end:
            token = self.peek()
            if token.upper == ")" or is_end(token):
                return
            if token.upper == "(":
                self.skip_parentheses()
            else:
                self.next()

    def skip_to_comma(self) -> None:
        self.skip_until(lambda token: token.upper == ",")

    def skip_to_end(self) -> None:
        self._at = len(self._tokens)

    def source(self, first: int, last: int | None = None) -> str:
        """Returns the text of the tokens from number ``first`` up to ``last`` (not included), or to the last one."""
        tokens = self._tokens[first:last]
        return self._text[tokens[0].start : tokens[-1].end] if tokens else ""

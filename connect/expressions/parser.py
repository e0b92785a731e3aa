"""Parses tokens into a tree. Anything outside the language is an error with its position and the nearest alternative."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from connect.expressions.dialect import Dialect
from connect.expressions.errors import ExpressionError
from connect.expressions.functions import FUNCTIONS
from connect.expressions.lexer import Token, TokenKind, tokenize
from connect.expressions.methods import METHODS
from connect.expressions.syntax import (
    Binary,
    Call,
    Conditional,
    Function,
    Index,
    ListOf,
    Literal,
    Logical,
    Node,
    Pattern,
    Property,
    Template,
    Unary,
    Variable,
)
from connect.suggestions import did_you_mean

_MAX_DEPTH = 60
"""Levels of nested parentheses, lists, and calls."""
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
_OR, _AND, _NOT, _EQUAL, _RELATION, _RANGE, _SUM, _PRODUCT, _POWER, _UNARY = range(1, 11)
_BINARY = {
    "==": _EQUAL, "!=": _EQUAL, "===": _EQUAL, "!==": _EQUAL, "<=>": _EQUAL, "=~": _EQUAL, "==~": _EQUAL,
    "<": _RELATION, "<=": _RELATION, ">": _RELATION, ">=": _RELATION,
    "..": _RANGE, "..<": _RANGE, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "**": _POWER,
}  # fmt: skip
_LOGICAL = {"||": ("||", _OR), "or": ("||", _OR), "??": ("??", _OR), "&&": ("&&", _AND), "and": ("&&", _AND)}
_HINTS = {
    "=": "assignments are not supported; == compares",
    "{": "blocks, closures, and maps are not supported",
    "&": "&& is the logical and",
    "|": "|| is the logical or",
}
_STATEMENTS = {
    "def", "var", "let", "const", "if", "else", "for", "while", "do", "switch", "try", "function", "import", "class", "throw",
    "assert",
}  # fmt: skip


def parse(source: str, variables: Collection[str], dialect: Dialect) -> Node:
    """Parses an expression. Raises ExpressionError."""
    tokens = tokenize(source, double_quotes_are_templates=dialect.double_quotes_are_templates)
    return _ExpressionParser(_TokenStream(source, tokens), variables, dialect, 0).parse_all()


class _TokenStream:
    """Reads the tokens of an expression one by one."""

    def __init__(self, source: str, tokens: list[Token]) -> None:
        self.source = source
        self._tokens = tokens
        self._index = 0

    def peek(self, offset: int = 0) -> Token:
        return self._tokens[min(self._index + offset, len(self._tokens) - 1)]

    def last(self) -> Token:
        """The token taken last."""
        return self._tokens[self._index - 1]

    def take(self) -> Token:
        token = self.peek()
        if token.kind is not TokenKind.END:
            self._index += 1
        return token

    def accept(self, *symbols: str) -> bool:
        """Takes the next token if it is one of these symbols."""
        if self.peek().is_symbol(*symbols):
            self._index += 1
            return True
        return False

    def expect(self, symbol: str, purpose: str) -> Token:
        """Takes a symbol. Raises ExpressionError if the next token is another one."""
        if not self.peek().is_symbol(symbol):
            raise self.error(self.peek(), f"{symbol} is expected {purpose}, but found {self.describe(self.peek())}")
        return self.take()

    def split_list_bracket(self) -> bool:
        """Whether the bracket of ``?[`` starts a list, as in ``a ?[1] : b``: a colon follows it. If so, splits the token."""
        depth = 0
        for i in range(self._index, len(self._tokens)):
            token = self._tokens[i]
            if token.is_symbol("[", "?[", "("):
                depth += 1
            elif token.is_symbol("]", ")"):
                depth -= 1
                if depth == 0:
                    if not self._tokens[i + 1].is_symbol(":"):
                        return False
                    opening = self.peek()
                    self._tokens[self._index : self._index + 1] = [
                        Token(TokenKind.SYMBOL, "?", opening.start, opening.start + 1),
                        Token(TokenKind.SYMBOL, "[", opening.start + 1, opening.end),
                    ]
                    return True
        return False

    def error(self, token: Token, problem: str) -> ExpressionError:
        return ExpressionError(self.source, token.start, problem)

    def describe(self, token: Token) -> str:
        if token.kind is TokenKind.END:
            return "the end"
        return f"{token.kind.value} {self.source[token.start : token.end][:40]}"

    def unexpected(self, token: Token) -> ExpressionError:
        hint = _HINTS.get(token.value) if token.kind is TokenKind.SYMBOL else None
        if hint is None and token.kind is TokenKind.NAME and token.value in _STATEMENTS:
            hint = "statements and definitions are not supported, only a single expression"
        return self.error(token, f"unexpected {self.describe(token)}{f': {hint}' if hint else ''}")


class _ExpressionParser:
    """A recursive descent parser; operators are parsed by precedence."""

    def __init__(self, tokens: _TokenStream, variables: Collection[str], dialect: Dialect, depth: int) -> None:
        self._tokens = tokens
        self._variables = variables
        self._dialect = dialect
        self._depth = depth

    def parse_all(self) -> Node:
        if self._tokens.peek().is_word("return"):
            self._tokens.take()
        if self._tokens.peek().kind is TokenKind.END or self._tokens.peek().is_symbol(";"):
            raise self._tokens.error(self._tokens.peek(), "the expression is empty")
        node = self._parse_expression()
        while self._tokens.accept(";"):
            pass
        if self._tokens.peek().kind is not TokenKind.END:
            raise self._tokens.unexpected(self._tokens.peek())
        return node

    def _parse_expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._tokens.error(
                self._tokens.peek(), f"the expression is nested too deeply; the limit is {_MAX_DEPTH} levels"
            )
        condition = self._parse_binary(_OR)
        if self._tokens.accept("?"):
            yes = self._parse_expression()
            self._tokens.expect(":", "between the two values of ?")
            no = self._parse_expression()
            condition = Conditional(condition.start, no.end, condition, yes, no)
        elif self._tokens.accept("?:"):
            no = self._parse_expression()
            condition = Conditional(condition.start, no.end, condition, None, no)
        self._depth -= 1
        return condition

    def _too_deep(self, token: Token) -> ExpressionError:
        return self._tokens.error(token, f"the expression is nested too deeply; the limit is {_MAX_DEPTH} levels")

    def _parse_binary(self, minimum: int) -> Node:
        left = self._parse_unary()
        while True:
            token = self._tokens.peek()
            logical = _LOGICAL.get(token.value) if token.kind in (TokenKind.SYMBOL, TokenKind.NAME) else None
            if logical is not None and logical[1] >= minimum:
                left = self._parse_logical(left, *logical)
                continue
            membership = self._accept_membership(minimum)
            if membership is not None:
                right = self._parse_binary(_RELATION + 1)
                node: Node = Binary(left.start, right.end, "in", left, right)
                left = node if membership else Unary(left.start, right.end, "!", node)
                continue
            precedence = _BINARY.get(token.value, 0) if token.kind is TokenKind.SYMBOL else 0
            if not precedence or precedence < minimum:
                return left
            self._tokens.take()
            right = self._parse_exponent() if precedence == _POWER else self._parse_binary(precedence + 1)
            left = self._build_binary(token, left, right)

    def _build_binary(self, token: Token, left: Node, right: Node) -> Node:
        if token.value in ("=~", "==~") and isinstance(right, Literal) and isinstance(right.value, str):
            right = Pattern(right.start, right.end, right.value, "")
        return Binary(left.start, right.end, token.value, left, right)

    def _parse_exponent(self) -> Node:
        """Parses an exponent; powers are right-associative."""
        base = self._parse_unary()
        if not self._tokens.accept("**"):
            return base
        exponent = self._parse_exponent()
        return Binary(base.start, exponent.end, "**", base, exponent)

    def _parse_logical(self, left: Node, operator: str, precedence: int) -> Node:
        operands = [left]
        while self._tokens.peek().kind in (TokenKind.SYMBOL, TokenKind.NAME) and _LOGICAL.get(self._tokens.peek().value) == (
            operator,
            precedence,
        ):
            self._tokens.take()
            operands.append(self._parse_binary(precedence + 1))
        return Logical(left.start, operands[-1].end, operator, tuple(operands))

    def _accept_membership(self, minimum: int) -> bool | None:
        """Takes ``in`` (returns True), or ``not in`` or ``!in`` (returns False). None if the next token is neither."""
        if minimum > _RELATION:
            return None
        if self._tokens.peek().is_word("in"):
            self._tokens.take()
            return True
        if (self._tokens.peek().is_word("not") or self._tokens.peek().is_symbol("!")) and self._tokens.peek(1).is_word("in"):
            self._tokens.take()
            self._tokens.take()
            return False
        return None

    def _parse_unary(self) -> Node:
        token = self._tokens.peek()
        if token.is_word("not"):
            return self._parse_nested_unary("!", _NOT + 1)
        if token.is_symbol("!"):
            return self._parse_nested_unary("!", _UNARY)
        if token.is_symbol("-", "+"):
            return self._parse_nested_unary(token.value, _POWER)
        if token.is_symbol("~"):
            return self._parse_pattern()
        return self._parse_postfix(self._parse_primary())

    def _parse_nested_unary(self, operator: str, precedence: int) -> Node:
        token = self._tokens.take()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._too_deep(token)
        operand = self._parse_unary() if precedence == _UNARY else self._parse_binary(precedence)
        self._depth -= 1
        return Unary(token.start, operand.end, operator, operand)

    def _parse_pattern(self) -> Node:
        """Parses ``~'text'`` and ``~/text/``."""
        operator = self._tokens.take()
        token = self._tokens.take()
        if token.kind is TokenKind.TEXT:
            return Pattern(operator.start, token.end, token.value, "")
        if token.kind is TokenKind.REGEX:
            return Pattern(operator.start, token.end, *token.value)
        raise self._tokens.error(token, "a text or /pattern/ is expected after ~")

    def _parse_primary(self) -> Node:
        token = self._tokens.take()
        match token.kind:
            case TokenKind.NUMBER | TokenKind.TEXT:
                value = token.value
                if token.kind is TokenKind.NUMBER and not self._dialect.decimal_literals and not isinstance(value, int):
                    value = float(value)
                return Literal(token.start, token.end, value)
            case TokenKind.REGEX:
                if self._dialect.slashes_are_texts and not token.value[1]:
                    return Literal(token.start, token.end, token.value[0])
                return Pattern(token.start, token.end, *token.value)
            case TokenKind.TEMPLATE:
                return self._parse_template(token)
            case TokenKind.NAME:
                return self._parse_name(token)
        if token.is_symbol("("):
            node = self._parse_expression()
            self._tokens.expect(")", "to close the parenthesis")
            return node
        if token.is_symbol("["):
            return self._parse_list(token)
        if token.kind is TokenKind.END:
            raise self._tokens.error(token, "a value is expected, but found the end")
        raise self._tokens.unexpected(token)

    def _parse_template(self, token: Token) -> Node:
        parts: list[Node] = []
        for part in token.value:
            if isinstance(part, str):
                if part:
                    parts.append(Literal(token.start, token.end, part))
            else:
                tokens = _TokenStream(self._tokens.source, part)
                inner = _ExpressionParser(tokens, self._variables, self._dialect, self._depth + 1)
                parts.append(inner.parse_all())
        return Template(token.start, token.end, tuple(parts))

    def _parse_list(self, opening: Token) -> Node:
        members: list[Node] = []
        while not self._tokens.peek().is_symbol("]"):
            if self._tokens.peek().is_symbol(":"):
                raise self._tokens.error(self._tokens.peek(), "maps are not supported, only lists")
            members.append(self._parse_expression())
            if not self._tokens.accept(","):
                break
        closing = self._tokens.expect("]", "to close the list")
        return ListOf(opening.start, closing.end, tuple(members))

    def _parse_name(self, token: Token) -> Node:
        name: str = token.value
        if name in _CONSTANTS:
            return Literal(token.start, token.end, _CONSTANTS[name])
        if name in self._variables:
            return Variable(token.start, token.end, name)
        if name == "new" or (name == "JSON" and self._tokens.peek().is_symbol(".")):
            return self._parse_json(token)
        if name in FUNCTIONS and self._tokens.peek().is_symbol("("):
            return self._parse_function(token)
        if name in _STATEMENTS:
            raise self._tokens.unexpected(token)
        raise self._tokens.error(token, f"there is no variable {name}{self._suggest(name, self._variables)}")

    def _suggest(self, name: str, known: Iterable[str]) -> str:
        names = sorted(known)
        hint = did_you_mean(name, names, "; ")
        return f"{hint} Known: {', '.join(names)}" if hint else f"; known: {', '.join(names)}"

    def _parse_json(self, token: Token) -> Node:
        """Parses ``JSON.parse(text)``, or the constructor in ``new groovy.json.JsonSlurper().parseText(text)``."""
        words = [token.value]
        first = self._tokens.peek()
        while self._tokens.peek().kind is TokenKind.NAME or self._tokens.peek().is_symbol("."):
            words.append(self._tokens.take().value)
        name = "".join(words[1:])
        if token.value == "JSON" and name == ".parse":
            return self._parse_function(Token(TokenKind.NAME, "JSON.parse", token.start, token.end))
        if token.value == "new" and name in ("JsonSlurper", "groovy.json.JsonSlurper"):
            self._tokens.expect("(", "after JsonSlurper")
            self._tokens.expect(")", "after JsonSlurper(")
            return Variable(token.start, self._tokens.last().end, "new JsonSlurper()")
        named = first if token.value == "new" else token
        raise self._tokens.error(named, f"{' '.join(words[:1])} {name} is not supported: JsonSlurper is the only class")

    def _parse_function(self, token: Token) -> Node:
        arguments, end = self._parse_arguments()
        minimum, maximum = FUNCTIONS[token.value].arity
        self._check_argument_count(token, token.value, len(arguments), minimum, maximum)
        return Function(token.start, end, token.value, arguments)

    def _check_argument_count(self, token: Token, name: str, count: int, minimum: int, maximum: int) -> None:
        if not minimum <= count <= maximum:
            expected = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
            raise self._tokens.error(token, f"{name} takes {expected} arguments, not {count}")

    def _parse_arguments(self) -> tuple[tuple[Node, ...], int]:
        self._tokens.expect("(", "before the arguments")
        arguments: list[Node] = []
        while not self._tokens.peek().is_symbol(")"):
            arguments.append(self._parse_expression())
            if not self._tokens.accept(","):
                break
        return tuple(arguments), self._tokens.expect(")", "after the arguments").end

    def _parse_postfix(self, node: Node) -> Node:
        while True:
            token = self._tokens.peek()
            if token.is_symbol(".", "?."):
                self._tokens.take()
                if token.value == "?." and self._tokens.peek().is_symbol("["):
                    node = self._parse_index(node, safe=True)
                    continue
                node = self._parse_member(node, safe=token.value == "?.")
            elif token.is_symbol("["):
                node = self._parse_index(node, safe=False)
            elif token.is_symbol("?["):
                if self._tokens.split_list_bracket():
                    return node
                node = self._parse_index(node, safe=True)
            elif token.is_symbol("("):
                raise self._tokens.error(
                    token, "only methods of a value can be called, and these functions: " + ", ".join(sorted(FUNCTIONS))
                )
            else:
                return node

    def _parse_index(self, node: Node, *, safe: bool) -> Node:
        self._tokens.take()
        index = self._parse_expression()
        closing = self._tokens.expect("]", "after the index")
        return Index(node.start, closing.end, node, index, safe)

    def _parse_member(self, node: Node, *, safe: bool) -> Node:
        token = self._tokens.take()
        if token.kind not in (TokenKind.NAME, TokenKind.TEXT):
            raise self._tokens.error(token, f"a name is expected after the dot, but found {self._tokens.describe(token)}")
        if not self._tokens.peek().is_symbol("("):
            return Property(node.start, token.end, node, token.value, safe)
        if token.value not in METHODS:
            raise self._tokens.error(token, f"there is no method {token.value}{self._suggest(token.value, METHODS)}")
        arguments, end = self._parse_arguments()
        minimum, maximum = METHODS[token.value].arity
        self._check_argument_count(token, token.value, len(arguments), minimum, maximum)
        return Call(node.start, end, node, token.value, arguments, safe)

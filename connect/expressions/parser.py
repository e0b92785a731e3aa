"""From tokens to a tree: what is not in the language ends here, with its position and what there is instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from connect.expressions.dialect import Dialect
from connect.expressions.errors import ExpressionError
from connect.expressions.functions import FUNCTIONS
from connect.expressions.lexer import Kind, Token, tokenize
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

_DEEPEST = 60
"""Parentheses, lists and calls within each other."""
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
_OR, _AND, _NOT, _EQUAL, _RELATION, _RANGE, _SUM, _PRODUCT, _POWER, _UNARY = range(1, 11)
_BINARY = {
    "==": _EQUAL, "!=": _EQUAL, "===": _EQUAL, "!==": _EQUAL, "<=>": _EQUAL, "=~": _EQUAL, "==~": _EQUAL,
    "<": _RELATION, "<=": _RELATION, ">": _RELATION, ">=": _RELATION,
    "..": _RANGE, "..<": _RANGE, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "**": _POWER,
}  # fmt: skip
_LOGICAL = {"||": ("||", _OR), "or": ("||", _OR), "??": ("??", _OR), "&&": ("&&", _AND), "and": ("&&", _AND)}
_HINTS = {
    "=": "an expression assigns nothing; == compares",
    "{": "there are no blocks, closures or maps",
    "&": "&& is the logical and",
    "|": "|| is the logical or",
}
_STATEMENTS = {
    "def", "var", "let", "const", "if", "else", "for", "while", "do", "switch", "try", "function", "import", "class", "throw",
    "assert",
}  # fmt: skip


def parse(source: str, variables: Collection[str], dialect: Dialect) -> Node:
    """The tree. Raises ExpressionError."""
    tokens = tokenize(source, double_quotes_are_templates=dialect.double_quotes_are_templates)
    return _Parser(source, tokens, variables, dialect, 0).whole()


class _Parser:
    def __init__(self, source: str, tokens: list[Token], variables: Collection[str], dialect: Dialect, depth: int) -> None:
        self._source = source
        self._tokens = tokens
        self._at = 0
        self._variables = variables
        self._dialect = dialect
        self._depth = depth

    # -- tokens

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._peek()
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def _took(self, *signs: str) -> bool:
        if self._peek().is_sign(*signs):
            self._at += 1
            return True
        return False

    def _expect(self, sign: str, purpose: str) -> Token:
        if not self._peek().is_sign(sign):
            raise self._error(self._peek(), f"{sign} is expected {purpose}, and there is {self._shown(self._peek())}")
        return self._take()

    def _error(self, token: Token, problem: str) -> ExpressionError:
        return ExpressionError(self._source, token.start, problem)

    def _shown(self, token: Token) -> str:
        if token.kind is Kind.END:
            return "the end"
        return f"{token.kind.value} {self._source[token.start : token.end][:40]}"

    def _unexpected(self, token: Token) -> ExpressionError:
        hint = _HINTS.get(token.value) if token.kind is Kind.SIGN else None
        if hint is None and token.kind is Kind.NAME and token.value in _STATEMENTS:
            hint = "there are no statements and definitions, only one expression"
        return self._error(token, f"{self._shown(token)} cannot stand here{f': {hint}' if hint else ''}")

    # -- expressions

    def whole(self) -> Node:
        if self._peek().is_word("return"):
            self._take()
        if self._peek().kind is Kind.END or self._peek().is_sign(";"):
            raise self._error(self._peek(), "the expression is empty")
        node = self._expression()
        while self._took(";"):
            pass
        if self._peek().kind is not Kind.END:
            raise self._unexpected(self._peek())
        return node

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(self._peek(), f"the expression is nested too deeply; {_DEEPEST} levels are the most")
        condition = self._binary(_OR)
        if self._took("?"):
            yes = self._expression()
            self._expect(":", "between the two values of ?")
            no = self._expression()
            condition = Conditional(condition.start, no.end, condition, yes, no)
        elif self._took("?:"):
            no = self._expression()
            condition = Conditional(condition.start, no.end, condition, None, no)
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while True:
            token = self._peek()
            logical = _LOGICAL.get(token.value) if token.kind in (Kind.SIGN, Kind.NAME) else None
            if logical is not None and logical[1] >= least:
                left = self._logical(left, *logical)
                continue
            membership = self._membership(least)
            if membership is not None:
                right = self._binary(_RELATION + 1)
                node: Node = Binary(left.start, right.end, "in", left, right)
                left = node if membership else Unary(left.start, right.end, "!", node)
                continue
            binding = _BINARY.get(token.value, 0) if token.kind is Kind.SIGN else 0
            if not binding or binding < least:
                return left
            self._take()
            right = self._unary_of_power() if binding == _POWER else self._binary(binding + 1)
            left = self._pair(token, left, right)

    def _pair(self, token: Token, left: Node, right: Node) -> Node:
        if token.value in ("=~", "==~") and isinstance(right, Literal) and isinstance(right.value, str):
            right = Pattern(right.start, right.end, right.value, "")
        return Binary(left.start, right.end, token.value, left, right)

    def _unary_of_power(self) -> Node:
        """The exponent; powers of powers go from the right."""
        base = self._unary()
        if not self._took("**"):
            return base
        exponent = self._unary_of_power()
        return Binary(base.start, exponent.end, "**", base, exponent)

    def _logical(self, left: Node, sign: str, binding: int) -> Node:
        operands = [left]
        while self._peek().kind in (Kind.SIGN, Kind.NAME) and _LOGICAL.get(self._peek().value) == (sign, binding):
            self._take()
            operands.append(self._binary(binding + 1))
        return Logical(left.start, operands[-1].end, sign, tuple(operands))

    def _membership(self, least: int) -> bool | None:
        """True after ``in``, False after ``not in`` or ``!in``, which are taken; None when there is neither."""
        if least > _RELATION:
            return None
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else self._peek()
        if self._peek().is_word("in"):
            self._take()
            return True
        if (self._peek().is_word("not") or self._peek().is_sign("!")) and following.is_word("in"):
            self._at += 2
            return False
        return None

    def _unary(self) -> Node:
        token = self._peek()
        if token.is_word("not"):
            return self._nested_unary("!", _NOT + 1)
        if token.is_sign("!"):
            return self._nested_unary("!", _UNARY)
        if token.is_sign("-", "+"):
            return self._nested_unary(token.value, _POWER)
        if token.is_sign("~"):
            return self._pattern_of_text()
        return self._postfix(self._primary())

    def _nested_unary(self, sign: str, binding: int) -> Node:
        token = self._take()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(token, f"the expression is nested too deeply; {_DEEPEST} levels are the most")
        operand = self._unary() if binding == _UNARY else self._binary(binding)
        self._depth -= 1
        return Unary(token.start, operand.end, sign, operand)

    def _pattern_of_text(self) -> Node:
        """``~'text'`` and ``~/text/``."""
        sign = self._take()
        token = self._take()
        if token.kind is Kind.TEXT:
            return Pattern(sign.start, token.end, token.value, "")
        if token.kind is Kind.REGEX:
            return Pattern(sign.start, token.end, *token.value)
        raise self._error(token, "a text or /pattern/ is expected after ~")

    def _primary(self) -> Node:
        token = self._take()
        match token.kind:
            case Kind.NUMBER | Kind.TEXT:
                value = token.value
                if token.kind is Kind.NUMBER and not self._dialect.decimal_literals and not isinstance(value, int):
                    value = float(value)
                return Literal(token.start, token.end, value)
            case Kind.REGEX:
                if self._dialect.slashes_are_texts and not token.value[1]:
                    return Literal(token.start, token.end, token.value[0])
                return Pattern(token.start, token.end, *token.value)
            case Kind.TEMPLATE:
                return self._template(token)
            case Kind.NAME:
                return self._named(token)
        if token.is_sign("("):
            node = self._expression()
            self._expect(")", "to close the parenthesis")
            return node
        if token.is_sign("["):
            return self._list(token)
        if token.kind is Kind.END:
            raise self._error(token, "a value is expected, and there is the end")
        raise self._unexpected(token)

    def _template(self, token: Token) -> Node:
        parts: list[Node] = []
        for part in token.value:
            if isinstance(part, str):
                if part:
                    parts.append(Literal(token.start, token.end, part))
            else:
                inner = _Parser(self._source, part, self._variables, self._dialect, self._depth + 1)
                parts.append(inner.whole())
        return Template(token.start, token.end, tuple(parts))

    def _list(self, opening: Token) -> Node:
        members: list[Node] = []
        while not self._peek().is_sign("]"):
            if self._peek().is_sign(":"):
                raise self._error(self._peek(), "there are no maps, only lists")
            members.append(self._expression())
            if not self._took(","):
                break
        closing = self._expect("]", "to close the list")
        return ListOf(opening.start, closing.end, tuple(members))

    def _named(self, token: Token) -> Node:
        name: str = token.value
        if name in _CONSTANTS:
            return Literal(token.start, token.end, _CONSTANTS[name])
        if name in self._variables:
            return Variable(token.start, token.end, name)
        if name == "new" or (name == "JSON" and self._peek().is_sign(".")):
            return self._json(token)
        if name in FUNCTIONS and self._peek().is_sign("("):
            return self._function(token)
        if name in _STATEMENTS:
            raise self._unexpected(token)
        raise self._error(token, f"there is no variable {name}{self._offered(name, self._variables)}")

    def _offered(self, name: str, known: Iterable[str]) -> str:
        names = sorted(known)
        hint = did_you_mean(name, names, "; ")
        return f"{hint} There are: {', '.join(names)}" if hint else f"; there are: {', '.join(names)}"

    def _json(self, token: Token) -> Node:
        """``JSON.parse(text)``, and ``new groovy.json.JsonSlurper().parseText(text)``, with or without parentheses."""
        words = [token.value]
        start = self._at
        while self._peek().kind is Kind.NAME or self._peek().is_sign("."):
            words.append(self._take().value)
        name = "".join(words[1:])
        if token.value == "JSON" and name == ".parse":
            return self._function(Token(Kind.NAME, "JSON.parse", token.start, token.end))
        if token.value == "new" and name in ("JsonSlurper", "groovy.json.JsonSlurper"):
            self._expect("(", "after JsonSlurper")
            self._expect(")", "after JsonSlurper(")
            return Variable(token.start, self._tokens[self._at - 1].end, "new JsonSlurper()")
        named = self._tokens[start] if token.value == "new" else token
        raise self._error(named, f"{' '.join(words[:1])} {name} is not in the language: of classes there is JsonSlurper alone")

    def _function(self, token: Token) -> Node:
        arguments, end = self._arguments()
        least, most = FUNCTIONS[token.value].arity
        self._check_count(token, token.value, len(arguments), least, most)
        return Function(token.start, end, token.value, arguments)

    def _check_count(self, token: Token, name: str, count: int, least: int, most: int) -> None:
        if not least <= count <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise self._error(token, f"{name} takes {expected} arguments, not {count}")

    def _arguments(self) -> tuple[tuple[Node, ...], int]:
        self._expect("(", "before the arguments")
        arguments: list[Node] = []
        while not self._peek().is_sign(")"):
            arguments.append(self._expression())
            if not self._took(","):
                break
        return tuple(arguments), self._expect(")", "after the arguments").end

    def _postfix(self, node: Node) -> Node:
        while True:
            token = self._peek()
            if token.is_sign(".", "?."):
                self._take()
                if token.value == "?." and self._peek().is_sign("["):
                    node = self._indexed(node, safe=True)
                    continue
                node = self._member(node, safe=token.value == "?.")
            elif token.is_sign("["):
                node = self._indexed(node, safe=False)
            elif token.is_sign("?["):
                if self._closes_a_condition():
                    return node
                node = self._indexed(node, safe=True)
            elif token.is_sign("("):
                raise self._error(
                    token, "only methods of a value can be called, and the functions " + ", ".join(sorted(FUNCTIONS))
                )
            else:
                return node

    def _closes_a_condition(self) -> bool:
        """``a ?[1] : b``: the bracket begins a list when a colon follows it. The sign is cut in two then."""
        depth = 0
        for i in range(self._at, len(self._tokens)):
            token = self._tokens[i]
            if token.is_sign("[", "?[", "("):
                depth += 1
            elif token.is_sign("]", ")"):
                depth -= 1
                if depth == 0:
                    if not self._tokens[i + 1].is_sign(":"):
                        return False
                    opening = self._peek()
                    self._tokens[self._at : self._at + 1] = [
                        Token(Kind.SIGN, "?", opening.start, opening.start + 1),
                        Token(Kind.SIGN, "[", opening.start + 1, opening.end),
                    ]
                    return True
        return False

    def _indexed(self, node: Node, *, safe: bool) -> Node:
        self._take()
        index = self._expression()
        closing = self._expect("]", "after the index")
        return Index(node.start, closing.end, node, index, safe)

    def _member(self, node: Node, *, safe: bool) -> Node:
        token = self._take()
        if token.kind not in (Kind.NAME, Kind.TEXT):
            raise self._error(token, f"a name is expected after the dot, and there is {self._shown(token)}")
        if not self._peek().is_sign("("):
            return Property(node.start, token.end, node, token.value, safe)
        if token.value not in METHODS:
            raise self._error(token, f"there is no method {token.value}{self._offered(token.value, METHODS)}")
        arguments, end = self._arguments()
        least, most = METHODS[token.value].arity
        self._check_count(token, token.value, len(arguments), least, most)
        return Call(node.start, end, node, token.value, arguments, safe)

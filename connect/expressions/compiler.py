"""Compiles a tree into closures: each node becomes a function from the record to a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.data.struct import Struct
from connect.expressions.arithmetic import find_operation, negate
from connect.expressions.dialect import JAVASCRIPT, Dialect, describe_kind, is_number, strictly_equals, to_script_number
from connect.expressions.errors import EvaluationError, ExpressionError, check_text_length
from connect.expressions.functions import FUNCTIONS
from connect.expressions.members import JSON_READER, contains, read_index, read_property
from connect.expressions.methods import METHODS
from connect.expressions.regular_expressions import compile_regex
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
from connect.expressions.text_methods import matcher, matches

Evaluate = Callable[[Any], Any]
Reader = Callable[[Any], Any]
_MAX_DEPTH = 250
_TAKES_PATTERN = {"matches", "replaceAll", "replaceFirst"}
_CONDITIONS = {"==", "===", "!=", "!==", "<", "<=", ">", ">=", "in", "==~"}
_UNKNOWN: Any = object()


def compile_tree(source: str, node: Node, variables: Mapping[str, Reader], dialect: Dialect) -> Evaluate:
    """Compiles a tree. Raises ExpressionError for an invalid or costly pattern, and for a tree that is too deep."""
    return _TreeCompiler(source, variables, dialect).compile(node, 0)


class _TreeCompiler:
    def __init__(self, source: str, variables: Mapping[str, Reader], dialect: Dialect) -> None:
        self._source = source
        self._variables = variables
        self._dialect = dialect

    def compile(self, node: Node, depth: int) -> Evaluate:
        if depth > _MAX_DEPTH:
            raise ExpressionError(
                self._source, node.start, f"the expression is nested too deeply; the limit is {_MAX_DEPTH} levels"
            )
        match node:
            case Literal():
                return _constant(node.value)
            case Pattern():
                return _constant(self._compile_regex(node, node.pattern, node.flags))
            case Variable():
                return _constant(JSON_READER) if node.name not in self._variables else self._variables[node.name]
            case Template():
                return self._compile_template(node, depth)
            case ListOf():
                return self._compile_list(node, depth)
            case Property():
                return self._compile_property(node, depth)
            case Index():
                return self._compile_index(node, depth)
            case Call():
                return self._compile_call(node, depth)
            case Function():
                return self._compile_function(node, depth)
            case Unary():
                return self._compile_unary(node, depth)
            case Logical():
                return self._compile_logical(node, depth)
            case Conditional():
                return self._compile_conditional(node, depth)
            case Binary():
                return self._compile_binary(node, depth)

    def _source_of(self, node: Node) -> str:
        return self._source[node.start : node.end]

    def _compile_regex(self, node: Node, pattern: str, flags: str = "") -> Any:
        try:
            return compile_regex(pattern, flags)
        except ValueError as e:
            raise ExpressionError(self._source, node.start, str(e)) from e

    def _compile_template(self, node: Template, depth: int) -> Evaluate:
        parts = [self.compile(part, depth + 1) for part in node.parts]
        text = self._dialect.text

        def join(subject: Any) -> str:
            found = [text(part(subject)) for part in parts]
            check_text_length(sum(map(len, found)))
            return "".join(found)

        return join

    def _compile_list(self, node: ListOf, depth: int) -> Evaluate:
        members = [self.compile(member, depth + 1) for member in node.members]
        if all(isinstance(member, Literal) for member in node.members):
            made = [member(None) for member in members]
            return lambda _: made
        return lambda subject: [member(subject) for member in members]

    # -- members

    def _compile_property(self, node: Property, depth: int) -> Evaluate:
        target = self.compile(node.target, depth + 1)
        name, safe, dialect, part, owner = (
            node.name,
            node.safe,
            self._dialect,
            self._source_of(node),
            self._source_of(node.target),
        )

        def otherwise(value: Any) -> Any:
            if value is None:
                if safe:
                    return None
                error = EvaluationError(f"{owner} is null, so {part} cannot be read; use {owner}?.{name} to get null")
                error.located = True
                raise error
            try:
                return read_property(value, name, dialect)
            except EvaluationError as e:
                raise e.within(part) from None

        return _field_reader(target, name, otherwise)

    def _compile_index(self, node: Index, depth: int) -> Evaluate:
        if isinstance(node.index, Literal) and isinstance(node.index.value, str):
            return self._compile_property(Property(node.start, node.end, node.target, node.index.value, node.safe), depth)
        target, index = self.compile(node.target, depth + 1), self.compile(node.index, depth + 1)
        safe, dialect, part, owner = node.safe, self._dialect, self._source_of(node), self._source_of(node.target)

        def read(subject: Any) -> Any:
            value = target(subject)
            try:
                if value is None:
                    if safe:
                        return None
                    raise EvaluationError(f"{owner} is null")
                return read_index(value, index(subject), dialect)
            except EvaluationError as e:
                raise e.within(part) from None

        return read

    def _compile_call(self, node: Call, depth: int) -> Evaluate:
        target = self.compile(node.target, depth + 1)
        arguments = [self.compile(argument, depth + 1) for argument in node.arguments]
        first = node.arguments[0] if node.arguments else None
        # In JavaScript, replaceAll does not treat text as a pattern.
        takes_pattern = node.name in _TAKES_PATTERN and not (self._dialect is JAVASCRIPT and node.name == "replaceAll")
        if takes_pattern and isinstance(first, Literal) and isinstance(first.value, str):
            arguments[0] = _constant(self._compile_regex(first, first.value))
        call, safe, dialect, part, owner = (
            METHODS[node.name].call, node.safe, self._dialect, self._source_of(node), self._source_of(node.target)
        )  # fmt: skip

        def call_method(value: Any, subject: Any) -> Any:
            try:
                if value is None:
                    if safe:
                        return None
                    raise EvaluationError(f"{owner} is null, so it has no methods; use ?. to get null")
                return call(dialect, value, *[argument(subject) for argument in arguments])
            except EvaluationError as e:
                raise e.within(part) from None

        if node.name == "get" and isinstance(first, Literal) and isinstance(first.value, str) and len(arguments) == 1:
            return _field_reader(target, first.value, lambda value: call_method(value, None))
        return lambda subject: call_method(target(subject), subject)

    def _compile_function(self, node: Function, depth: int) -> Evaluate:
        call, dialect, part = FUNCTIONS[node.name].call, self._dialect, self._source_of(node)
        arguments = [self.compile(argument, depth + 1) for argument in node.arguments]

        def result(subject: Any) -> Any:
            try:
                return call(dialect, *[argument(subject) for argument in arguments])
            except EvaluationError as e:
                raise e.within(part) from None

        return result

    # -- operators

    def _compile_unary(self, node: Unary, depth: int) -> Evaluate:
        if node.operator == "-" and isinstance(node.operand, Literal) and is_number(node.operand.value):
            return _constant(-node.operand.value)
        operand = self.compile(node.operand, depth + 1)
        dialect, part = self._dialect, self._source_of(node)
        if node.operator == "!":
            is_true = dialect.is_true
            return lambda subject: not is_true(operand(subject))
        positive = node.operator == "+"

        def apply_sign(subject: Any) -> Any:
            value = operand(subject)
            try:
                if positive:
                    return to_script_number(value) if dialect.missing_is_null else negate(negate(value, dialect), dialect)
                return negate(value, dialect)
            except EvaluationError as e:
                raise e.within(part) from None

        return apply_sign

    def _compile_logical(self, node: Logical, depth: int) -> Evaluate:
        operands = [self.compile(operand, depth + 1) for operand in node.operands]
        is_true = self._dialect.is_true
        *others, last = operands
        if node.operator == "??":
            return lambda subject: _first_non_null(others, last, subject)
        stops_at = node.operator == "||"
        returns_operands = self._dialect.returns_operands
        if len(operands) == 2 and all(_is_condition(operand) for operand in node.operands):
            left, right = operands
            if stops_at:
                return lambda subject: left(subject) or right(subject)
            return lambda subject: left(subject) and right(subject)
        if len(operands) == 2 and not returns_operands:
            left, right = operands
            if stops_at:
                return lambda subject: is_true(left(subject)) or is_true(right(subject))
            return lambda subject: is_true(left(subject)) and is_true(right(subject))

        def decide(subject: Any) -> Any:
            for operand in others:
                value = operand(subject)
                if is_true(value) is stops_at:
                    return value if returns_operands else stops_at
            value = last(subject)
            return value if returns_operands else is_true(value)

        return decide

    def _compile_conditional(self, node: Conditional, depth: int) -> Evaluate:
        condition, no = self.compile(node.condition, depth + 1), self.compile(node.no, depth + 1)
        is_true = self._dialect.is_true
        if node.yes is not None:
            yes = self.compile(node.yes, depth + 1)
            if _is_condition(node.condition):
                return lambda subject: yes(subject) if condition(subject) else no(subject)
            return lambda subject: yes(subject) if is_true(condition(subject)) else no(subject)

        def elvis(subject: Any) -> Any:
            value = condition(subject)
            return value if is_true(value) else no(subject)

        return elvis

    def _compile_binary(self, node: Binary, depth: int) -> Evaluate:
        left, right = self.compile(node.left, depth + 1), self.compile(node.right, depth + 1)
        match node.operator:
            case "==" | "===" | "!=" | "!==":
                return self._compile_equality(node, left, right)
            case ".." | "..<":
                return self._apply_located(node, _build_range(node.operator == "..<"), left, right)
            case "in":
                dialect = self._dialect
                return self._apply_located(node, lambda a, b: contains(b, a, dialect, strictly_equals), left, right)
            case "=~":
                return self._apply_located(node, matcher, left, right)
            case "==~":
                dialect = self._dialect
                return self._apply_located(
                    node, lambda a, b: a is not None and matches(dialect, _require_text(a), b), left, right
                )
            case "<" | "<=" | ">" | ">=" | "<=>":
                return self._compile_comparison(node, left, right)
        return self._apply_located(node, find_operation(node.operator, self._dialect), left, right)

    def _apply_located(self, node: Binary, function: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
        """Evaluates both operands and applies the function; errors name this part of the expression."""
        part = self._source_of(node)

        def result(subject: Any) -> Any:
            first, second = left(subject), right(subject)
            try:
                return function(first, second)
            except EvaluationError as e:
                raise e.within(part) from None

        return result

    def _compile_equality(self, node: Binary, left: Evaluate, right: Evaluate) -> Evaluate:
        equals = strictly_equals if len(node.operator) == 3 else self._dialect.equals
        expected = node.operator[0] == "="
        constant = node.right.value if isinstance(node.right, Literal) else _UNKNOWN
        if constant is None:
            return lambda subject: (left(subject) is None) is expected
        if constant.__class__ in (str, int):
            kind = constant.__class__

            def equals_constant(subject: Any) -> bool:
                value = left(subject)
                same = value == constant if value.__class__ is kind else equals(value, constant)
                return same is expected

            return equals_constant
        return lambda subject: equals(left(subject), right(subject)) is expected

    def _compile_comparison(self, node: Binary, left: Evaluate, right: Evaluate) -> Evaluate:
        compare, operator = self._dialect.compare, node.operator
        if operator == "<=>":

            def order(a: Any, b: Any) -> int:
                found = compare(a, b)
                if found is None:
                    raise EvaluationError(f"{describe_kind(a)} and {describe_kind(b)} cannot be ordered")
                return found

            return self._apply_located(node, order, left, right)
        tests: dict[str, Callable[[int], bool]] = {
            "<": lambda order: order < 0,
            "<=": lambda order: order <= 0,
            ">": lambda order: order > 0,
            ">=": lambda order: order >= 0,
        }
        test = tests[operator]

        def holds(a: Any, b: Any) -> bool:
            found = compare(a, b)
            return found is not None and test(found)

        return self._apply_located(node, holds, left, right)


def _field_reader(target: Evaluate, name: str, otherwise: Callable[[Any], Any]) -> Evaluate:
    """Reads a field of structs that have it; calls ``otherwise`` for all other values."""
    # The index and default of the field in the last schema seen. One tuple, so that they stay consistent.
    cached: tuple[Any, int, Any] = (_UNKNOWN, 0, None)

    def read(subject: Any) -> Any:
        nonlocal cached
        value = target(subject)
        if value.__class__ is not Struct:
            return otherwise(value)
        schema, index, default = cached
        if value.schema is not schema:
            found = value.schema.index_of(name)
            if found is None or value.schema.fields is None:
                return otherwise(value)
            index, default = found, value.schema.fields[found].schema.default
            cached = (value.schema, index, default)
        result = value.values[index]
        return default if result is None else result

    return read


def _is_condition(node: Node) -> bool:
    """Whether the node always returns true or false."""
    if isinstance(node, Binary):
        return node.operator in _CONDITIONS
    return (isinstance(node, Unary) and node.operator == "!") or (isinstance(node, Literal) and isinstance(node.value, bool))


def _constant(value: Any) -> Evaluate:
    return lambda _: value


def _first_non_null(others: list[Evaluate], last: Evaluate, subject: Any) -> Any:
    """The first operand that is not null."""
    for operand in others:
        value = operand(subject)
        if value is not None:
            return value
    return last(subject)


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"only text can be matched, not {describe_kind(value)}")
    return value


def _build_range(open_end: bool) -> Callable[[Any, Any], range]:
    def made(first: Any, last: Any) -> range:
        if not isinstance(first, int) or not isinstance(last, int):
            raise EvaluationError(f"a range needs two integers, not {describe_kind(first)} and {describe_kind(last)}")
        step = 1 if last >= first else -1
        return range(first, last if open_end else last + step, step)

    return made

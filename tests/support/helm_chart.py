"""Renders a Helm chart with the part of Go's templates and Helm's functions that our chart uses.

Tests need no Helm, whose build takes minutes. Golden files rendered by Helm itself pin that this renders the same: see
``tests/unit/kubernetes``. Anything outside the known part is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"\{\{(-)?(?:\s*/\*.*?\*/\s*|(.*?))(-)?\}\}", re.S)
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(:=)|([|(),])|([^\s|(),"]+))')


class ChartError(Exception):
    """The chart uses something that this renderer does not know, or refuses the values."""


@dataclass(slots=True)
class Node:
    """A text, an action, or a block with its bodies."""

    kind: str
    text: str = ""
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


def render_chart(
    chart: Path, values: Mapping[str, Any], release: str = "sluice", namespace: str = "default"
) -> list[dict[str, Any]]:
    """Returns the objects that ``helm template`` prints, in the order of the templates' names.

    Values are merged into those of the chart. Raises ChartError.
    """
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    root = {
        "Values": _merged(yaml.safe_load((chart / "values.yaml").read_text("utf-8")), values),
        "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
        "Chart": {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
    }
    templates = {path.name: _parse(path.read_text("utf-8")) for path in sorted((chart / "templates").iterdir())}
    renderer = _Renderer(root, {node.text: node.body for nodes in templates.values() for node in nodes if node.kind == "define"})
    objects: list[dict[str, Any]] = []
    for name, nodes in templates.items():
        text = renderer.render(nodes, root, {"$": root})
        if name.endswith(".yaml"):
            objects += [one for one in yaml.safe_load_all(text) if one]
    return objects


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, Mapping):
        return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
    return over


def _parse(text: str) -> list[Node]:
    root = Node("root")
    stack: list[tuple[Node, bool]] = [(root, False)]  # with whether what follows belongs to the else branch

    def append(node: Node) -> None:
        owner, is_else = stack[-1]
        (owner.otherwise if is_else else owner.body).append(node)

    position, trim = 0, False
    for found in _ACTION.finditer(text):
        plain = text[position : found.start()]
        plain = plain.lstrip() if trim else plain
        append(Node("text", plain.rstrip() if found[1] else plain))
        position, trim = found.end(), bool(found[3])
        action = (found[2] or "").strip()
        word, _, rest = action.partition(" ")
        if word in ("if", "with", "range", "define"):
            node = Node(word, json.loads(rest) if word == "define" else rest)
            append(node)
            stack.append((node, False))
        elif word == "else":
            if rest:
                raise ChartError(f"else {rest} is not known; nest another block")
            stack[-1] = (stack[-1][0], True)
        elif word == "end":
            stack.pop()
        elif action:
            append(Node("action", action))
    plain = text[position:]
    append(Node("text", plain.lstrip() if trim else plain))
    if len(stack) != 1:
        raise ChartError("a block has no end")
    return root.body


class _Renderer:
    def __init__(self, root: Mapping[str, Any], defined: Mapping[str, list[Node]]) -> None:
        self._root = root
        self._defined = defined

    def render(self, nodes: Sequence[Node], dot: Any, variables: Mapping[str, Any]) -> str:
        return "".join(self._node(node, dot, variables) for node in nodes)

    def _node(self, node: Node, dot: Any, variables: Mapping[str, Any]) -> str:
        if node.kind == "text":
            return node.text
        if node.kind == "define":
            return ""
        if node.kind == "action":
            return _text(self._evaluate(node.text, dot, variables))
        if node.kind == "range":
            return "".join(self._iterations(node, dot, variables))
        value = self._evaluate(node.text, dot, variables)
        if not value:
            return self.render(node.otherwise, dot, variables)
        return self.render(node.body, value if node.kind == "with" else dot, variables)

    def _iterations(self, node: Node, dot: Any, variables: Mapping[str, Any]) -> Iterator[str]:
        names, assigned, source = node.text.rpartition(":=")
        value = self._evaluate(source, dot, variables)
        key_name, _, value_name = (part.strip() for part in names.partition(",")) if assigned else ("", "", "")
        items = sorted(value.items()) if isinstance(value, Mapping) else enumerate(value or ())
        for key, one in items:
            yield self.render(node.body, one, {**variables, key_name: key, value_name: one} if assigned else variables)

    def _evaluate(self, text: str, dot: Any, variables: Mapping[str, Any]) -> Any:
        tokens = [next(part for part in found if part) for found in _TOKEN.findall(text)]
        value, rest = self._pipeline(tokens, dot, variables)
        if rest:
            raise ChartError(f"cannot read {' '.join(rest)} in {text}")
        return value

    def _pipeline(self, tokens: list[str], dot: Any, variables: Mapping[str, Any]) -> tuple[Any, list[str]]:
        value, tokens = self._command(tokens, [], dot, variables)
        while tokens and tokens[0] == "|":
            value, tokens = self._command(tokens[1:], [value], dot, variables)
        return value, tokens

    def _command(self, tokens: list[str], last: list[Any], dot: Any, variables: Mapping[str, Any]) -> tuple[Any, list[str]]:
        """Evaluates one command; what was piped into it is its last argument."""
        name, arguments = tokens[0], []
        is_call = name in _FUNCTIONS or name == "include"
        rest = tokens[1:] if is_call else tokens
        while rest and rest[0] not in ("|", ")"):
            if rest[0] == "(":
                value, rest = self._pipeline(rest[1:], dot, variables)
                rest = rest[1:]
            else:
                value, rest = self._operand(rest[0], dot, variables), rest[1:]
            arguments.append(value)
        if name == "include":
            template, context = [*arguments, *last]
            return self.render(self._defined[template], context, {"$": context}), rest
        if is_call:
            return _FUNCTIONS[name](*arguments, *last), rest
        if len(arguments) != 1 or last:
            raise ChartError(f"{name} is not a function that is known")
        return arguments[0], rest

    def _operand(self, token: str, dot: Any, variables: Mapping[str, Any]) -> Any:
        if token.startswith('"'):
            return json.loads(token)
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if token.startswith("$"):
            name, _, path = token.partition(".")
            return _member(variables[name], path)
        if token.startswith("."):
            return _member(dot, token[1:])
        raise ChartError(f"{token} is not known")


def _member(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _required(message: str, value: Any) -> Any:
    if value in (None, ""):
        raise ChartError(message)
    return value


def _indented(count: int, text: str) -> str:
    return "\n".join(" " * count + line for line in text.split("\n"))


def _printf(form: str, *values: Any) -> str:
    return form.replace("%s", "{}").format(*map(_text, values))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "default": lambda default, value=None: value or default,
    "indent": _indented,
    "not": lambda value: not value,
    "nindent": lambda count, text: "\n" + _indented(count, text),
    "printf": _printf,
    "quote": lambda value: json.dumps(_text(value)),
    "required": _required,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True, width=10_000).removesuffix("\n").removesuffix("\n..."),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda count, text: text[:count],
}

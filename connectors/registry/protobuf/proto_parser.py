"""Parses .proto files to descriptors of messages, enums, and fields; skips services.

One pass over the tokens, with a limit to depth and size. Types stay as they are named; the descriptor pool finds what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto

from connect.errors import SchemaError

_MAX_DEPTH = 64
_MAX_TOKENS = 1_000_000
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<word>[A-Za-z_][\w]*)|(?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[{}\[\]()<>;:=,.\-+/])""",
    re.VERBOSE | re.DOTALL,
)
SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
        "bool", "string", "bytes",
    )
}  # fmt: skip
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}


@dataclass(slots=True)
class ProtoFile:
    """A parsed file. ``meta`` has the parameters of ``confluent.field_meta`` by full field name."""

    descriptor: FileDescriptorProto
    meta: dict[str, dict[str, str]] = field(default_factory=dict)


def parse_proto(name: str, text: str) -> ProtoFile:
    """Parses a file. Raises SchemaError that names the line."""
    return _ProtoParser(name, text).file()


class _ProtoParser:
    def __init__(self, name: str, text: str) -> None:
        self._made = ProtoFile(FileDescriptorProto(name=name, syntax="proto2"))
        self._name = name
        self._tokens: list[tuple[str, str, int]] = []
        at = line = 0
        line = 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or len(self._tokens) > _MAX_TOKENS:
                raise SchemaError(f"The Protobuf schema {name} is not understood at line {line}: {text[at : at + 20]!r}")
            if found.lastgroup is not None:
                self._tokens.append((found.lastgroup, found.group(), line))
            line += found.group().count("\n")
            at = found.end()
        self._tokens.append(("end", "", line))
        self._at = 0

    # -- tokens

    def _fail(self, wanted: str) -> SchemaError:
        _, token, line = self._tokens[self._at]
        return SchemaError(f"The Protobuf schema {self._name} has {token or 'its end'!r} at line {line} where {wanted} should be")

    def _next(self, kind: str, wanted: str) -> str:
        found, token, _ = self._tokens[self._at]
        if found != kind:
            raise self._fail(wanted)
        self._at += 1
        return token

    def _is(self, *tokens: str) -> bool:
        return self._tokens[self._at][1] in tokens

    def _take(self, token: str) -> bool:
        if self._tokens[self._at][1] == token and self._tokens[self._at][0] != "text":
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._fail(repr(token))

    def _word(self, wanted: str = "a name") -> str:
        return self._next("word", wanted)

    def _path(self) -> str:
        """Parses a dotted name, possibly with a leading dot."""
        parts = ["" if self._take(".") else self._word()]
        if parts == [""]:
            parts.append(self._word())
        while self._take("."):
            parts.append(self._word())
        return ".".join(parts)

    def _integer(self) -> int:
        sign = -1 if self._take("-") else 1
        token = self._next("number", "a number")
        try:
            return sign * int(token, 0 if token.lower().startswith(("0x", "-0x")) else 10)
        except ValueError as e:
            self._at -= 1
            raise self._fail("a whole number") from e

    def _text(self) -> str:
        made = _unquoted(self._next("text", "a text"))
        while self._tokens[self._at][0] == "text":
            made += _unquoted(self._next("text", "a text"))
        return made

    def _skip_statement(self) -> None:
        """Skips up to a semicolon, or a whole block."""
        depth = 0
        while True:
            kind, token, _ = self._tokens[self._at]
            if kind == "end":
                raise self._fail("';' or '}'")
            self._at += 1
            if kind == "sign" and token in "{[(":
                depth += 1
            elif kind == "sign" and token in "}])":
                depth -= 1
                if depth == 0 and token == "}":
                    self._take(";")
                    return
            elif depth == 0 and token == ";":
                return

    # -- declarations

    def file(self) -> ProtoFile:
        made = self._made.descriptor
        while self._tokens[self._at][0] != "end":
            if self._take(";"):
                continue
            word = self._word("a declaration")
            if word == "syntax":
                self._expect("=")
                made.syntax = self._text()
                if made.syntax not in ("proto2", "proto3"):
                    raise SchemaError(f"The Protobuf schema {self._name} has the syntax {made.syntax!r}, not proto2 or proto3")
                self._expect(";")
            elif word == "edition":
                raise SchemaError(f"The Protobuf schema {self._name} uses editions; known are the syntaxes proto2 and proto3")
            elif word == "package":
                made.package = self._path()
                self._expect(";")
            elif word == "import":
                if not self._take("public"):
                    self._take("weak")
                made.dependency.append(self._text())
                self._expect(";")
            elif word == "message":
                self._message(made.message_type.add(), made.package, 0)
            elif word == "enum":
                self._enum(made.enum_type.add())
            elif word in ("option", "service", "extend"):
                self._skip_statement()
            else:
                self._at -= 1
                raise self._fail("a declaration")
        return self._made

    def _message(self, made: DescriptorProto, scope: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise SchemaError(f"The Protobuf schema {self._name} is nested more than {_MAX_DEPTH} levels deep")
        made.name = self._word("the name of a message")
        full = f"{scope}.{made.name}" if scope else made.name
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            following = self._tokens[self._at + 1][1]
            # These keywords may also be type names.
            if self._is("message") and following not in (".", "="):
                self._at += 1
                self._message(made.nested_type.add(), full, depth + 1)
            elif self._is("enum") and following not in (".", "="):
                self._at += 1
                self._enum(made.enum_type.add())
            elif self._is("oneof"):
                self._at += 1
                self._oneof(made, full)
            elif self._is("map") and following == "<":
                self._at += 1
                self._map(made, full)
            elif self._is("option", "reserved", "extensions", "extend"):
                self._at += 1
                if self._is("set"):
                    raise self._fail("a field")
                self._skip_option(made)
            else:
                self._field(made, full, None)
        _number_optionals(made)

    def _skip_option(self, made: DescriptorProto) -> None:
        start = self._at
        self._skip_statement()
        words = [token for _, token, _ in self._tokens[start : self._at]]
        if words[:3] == ["map_entry", "=", "true"]:
            made.options.map_entry = True

    def _field(self, message: DescriptorProto, scope: str, oneof: int | None) -> None:
        made = message.field.add()
        made.label = FieldDescriptorProto.LABEL_OPTIONAL
        if oneof is not None:
            made.oneof_index = oneof
        elif self._is(*_LABELS) and self._tokens[self._at + 1][1] != "=":
            label = self._word()
            made.label = _LABELS[label]
            made.proto3_optional = label == "optional" and self._made.descriptor.syntax == "proto3"
        if self._is("group"):
            raise SchemaError(f"The Protobuf schema {self._name} has a group, which Connect does not know")
        self._set_type(made, self._path())
        self._numbered(made, scope)

    def _set_type(self, made: FieldDescriptorProto, kind: str) -> None:
        if kind in SCALARS:
            made.type = SCALARS[kind]
        else:
            made.type_name = kind

    def _numbered(self, made: FieldDescriptorProto, scope: str) -> None:
        """Parses the rest of a field: name, number, and options."""
        made.name = self._word("the name of a field")
        self._expect("=")
        number = self._integer()
        if not 0 < number < 1 << 29:
            self._at -= 1
            raise self._fail("a field number from 1 to 536870911")
        made.number = number
        if self._take("["):
            self._options(made, f"{scope}.{made.name}")
        self._expect(";")

    def _options(self, made: FieldDescriptorProto, full: str) -> None:
        while True:
            start = self._at
            depth = 0
            while depth or not self._is(",", "]"):
                kind, token, _ = self._tokens[self._at]
                if kind == "end":
                    raise self._fail("']'")
                depth += kind == "sign" and token in "{[("
                depth -= kind == "sign" and token in "}])"
                self._at += 1
            self._option(made, full, self._tokens[start : self._at])
            if self._take("]"):
                return
            self._expect(",")

    def _option(self, made: FieldDescriptorProto, full: str, tokens: list[tuple[str, str, int]]) -> None:
        words = [token for _, token, _ in tokens]
        if words[:2] == ["packed", "="]:
            made.options.packed = words[2:] == ["true"]
        elif words[:2] == ["default", "="]:
            made.default_value = _default(tokens[2:], made)
        elif words[:5] == ["(", "confluent", ".", "field_meta", ")"]:
            self._made.meta[full] = _parameters(tokens)

    def _oneof(self, message: DescriptorProto, scope: str) -> None:
        message.oneof_decl.add(name=self._word("the name of a oneof"))
        index = len(message.oneof_decl) - 1
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._is("option"):
                self._skip_statement()
            else:
                self._field(message, scope, index)

    def _map(self, message: DescriptorProto, scope: str) -> None:
        self._expect("<")
        key = self._path()
        self._expect(",")
        value = self._path()
        self._expect(">")
        made = message.field.add(label=FieldDescriptorProto.LABEL_REPEATED)
        self._numbered(made, scope)
        entry = message.nested_type.add(name=map_entry_name(made.name))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            inner = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            self._set_type(inner, kind)
        made.type = FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = f".{scope}.{entry.name}"

    def _enum(self, made: EnumDescriptorProto) -> None:
        made.name = self._word("the name of an enum")
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._is("option", "reserved") and self._tokens[self._at + 1][1] != "=":
                allows = [token for _, token, _ in self._tokens[self._at : self._at + 4]]
                if allows == ["option", "allow_alias", "=", "true"]:
                    made.options.allow_alias = True
                self._skip_statement()
                continue
            name = self._word("the name of an enum value")
            self._expect("=")
            made.value.add(name=name, number=self._integer())
            if self._take("["):
                self._at -= 1
                self._skip_statement()
            else:
                self._expect(";")


def map_entry_name(name: str) -> str:
    """The name of the entry message of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _number_optionals(message: DescriptorProto) -> None:
    """Adds a synthetic oneof for each ``optional`` field of proto3, after the real ones."""
    for one in message.field:
        if one.proto3_optional:
            message.oneof_decl.add(name=f"_{one.name}")
            one.oneof_index = len(message.oneof_decl) - 1


def _unquoted(token: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), token[1:-1])


def _default(tokens: list[tuple[str, str, int]], made: FieldDescriptorProto) -> str:
    if tokens and tokens[0][0] == "text":
        return "".join(_unquoted(token) for _, token, _ in tokens)
    return "".join(token for _, token, _ in tokens)


def _parameters(tokens: list[tuple[str, str, int]]) -> dict[str, str]:
    """The key-value pairs in the parameters of a field's metadata."""
    found: dict[str, str] = {}
    key: str | None = None
    for (_, name, _), (_, _, _), (kind, token, _) in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if name == "key" and kind == "text":
            key = _unquoted(token)
        elif name == "value" and kind == "text" and key is not None:
            found[key] = _unquoted(token)
            key = None
    return found

"""Java's object serialization, as far as arrays of simple values need it.

Source: "Java Object Serialization Specification", chapter 6. Debezium stores keys of incremental snapshots this way, in offsets.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from connect.errors import DataError

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY, _BLOCK, _END = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x77, 0x78
_LONG_STRING = 0x7C
_FIRST_HANDLE = 0x7E0000
_WRITE_METHOD, _EXTERNALIZABLE = 0x01, 0x04
_SER = "java.time.Ser"
"""What values of java.time are serialized as: a number of their class, and their fields."""
_SER_DURATION, _SER_LOCAL_DATE = struct.Struct(">Bqi"), struct.Struct(">BiBB")
_FORMATS = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}
_MAX_DEPTH = 50


class JavaType(Enum):
    """The class of a value; the value is its name."""

    INTEGER = "java.lang.Integer"
    LONG = "java.lang.Long"
    BOOLEAN = "java.lang.Boolean"
    DOUBLE = "java.lang.Double"
    FLOAT = "java.lang.Float"
    STRING = "java.lang.String"
    DECIMAL = "java.math.BigDecimal"
    BIG_INTEGER = "java.math.BigInteger"
    UUID = "java.util.UUID"
    BYTES = "[B"
    LOCAL_DATE = "java.time.LocalDate"
    """A ``datetime.date``."""
    DURATION = "java.time.Duration"
    """A ``datetime.timedelta``."""


# --- reading --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    flags: int
    fields: tuple[tuple[str, str], ...]
    parent: _Class | None

    def line(self) -> list[_Class]:
        """The class and those it extends, the topmost first."""
        return [*(self.parent.line() if self.parent else ()), self]


def parse_java_array(data: bytes) -> list[Any] | None:
    """Parses a serialized ``Object[]`` of the classes of :class:`JavaType`; None for Java's null.

    Raises DataError for anything else.
    """
    try:
        reader = _Reader(data)
        value = reader.value(0)
    except (struct.error, IndexError, KeyError, ValueError, OverflowError, TypeError) as e:
        raise DataError(f"not a serialized Java array: {e!r}") from e
    if value is not None and not isinstance(value, list):
        raise DataError("not a serialized Java array")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        if not data.startswith(_MAGIC):
            raise ValueError("no stream header")
        self._data = data
        self._at = len(_MAGIC)
        self._handles: list[Any] = []

    def _unpack(self, form: str) -> Any:
        (value,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return value

    def _bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise ValueError("truncated")
        self._at += size
        return found

    def _text(self, size: int) -> str:
        raw = self._bytes(size).replace(b"\xc0\x80", b"\0")
        return raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")

    def _kind(self, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        kind: int = self._unpack("B")
        return kind

    def _known(self) -> Any:
        """What a reference means."""
        return self._handles[self._unpack("I") - _FIRST_HANDLE]

    def value(self, depth: int) -> Any:
        kind = self._kind(depth)
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._known()
        if kind in (_STRING, _LONG_STRING):
            text = self._text(self._unpack("H" if kind == _STRING else "Q"))
            self._handles.append(text)
            return text
        if kind == _ARRAY:
            return self._array(depth)
        if kind == _OBJECT:
            return self._object(depth)
        raise ValueError(f"kind {kind:#x}")

    def _class(self, depth: int) -> _Class | None:
        kind = self._kind(depth)
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            known = self._known()
            if not isinstance(known, _Class):
                raise ValueError("not a class")
            return known
        if kind != _CLASS:
            raise ValueError(f"kind {kind:#x} for a class")
        name = self._text(self._unpack("H"))
        self._bytes(8)  # the version of the class
        at = len(self._handles)
        self._handles.append(None)
        flags = self._unpack("B")
        fields = []
        for _ in range(self._unpack("H")):
            type_ = chr(self._unpack("B"))
            fields.append((self._text(self._unpack("H")), type_))
            if type_ in "L[":
                self.value(depth + 1)
        if self._unpack("B") != _END:
            raise ValueError("annotated class")
        found = _Class(name, flags, tuple(fields), self._class(depth + 1))
        self._handles[at] = found
        return found

    def _array(self, depth: int) -> Any:
        class_ = self._class(depth + 1)
        at = len(self._handles)
        self._handles.append(None)
        size = self._unpack("i")
        if class_ is None or size < 0:
            raise ValueError("array")
        if class_.name == JavaType.BYTES.value:
            value: Any = self._bytes(size)
        elif class_.name == "[Ljava.lang.Object;":
            value = [self.value(depth + 1) for _ in range(size)]
        else:
            raise ValueError(class_.name)
        self._handles[at] = value
        return value

    def _object(self, depth: int) -> Any:
        class_ = self._class(depth + 1)
        if class_ is None:
            raise ValueError("object without a class")
        at = len(self._handles)
        self._handles.append(None)
        fields: dict[str, Any] = {}
        if class_.name == _SER and class_.flags & _EXTERNALIZABLE:
            value = self._handles[at] = self._time_value()
            return value
        for part in class_.line():
            for name, type_ in part.fields:
                fields[name] = self.value(depth + 1) if type_ in "L[" else self._unpack(_FORMATS[type_])
            if part.flags & _WRITE_METHOD and self._unpack("B") != _END:
                raise ValueError(f"{part.name} has data of its own")
        value = self._handles[at] = _simple_value(class_.name, fields)
        return value

    def _time_value(self) -> Any:
        if self._unpack("B") != _BLOCK:
            raise ValueError(f"{_SER} without data")
        data = self._bytes(self._unpack("B"))
        if self._unpack("B") != _END:
            raise ValueError(f"{_SER} with more data")
        if data[0] == 1:
            _, seconds, nanoseconds = _SER_DURATION.unpack(data)
            microseconds, rest = divmod(nanoseconds, 1000)
            if rest:
                raise ValueError("a duration with nanoseconds")
            return dt.timedelta(seconds=seconds, microseconds=microseconds)
        if data[0] == 3:
            _, year, month, day = _SER_LOCAL_DATE.unpack(data)
            return dt.date(year, month, day)
        raise ValueError(f"{_SER} {data[0]}")


def _simple_value(name: str, fields: dict[str, Any]) -> Any:
    if name == "java.math.BigInteger":
        return fields["signum"] * int.from_bytes(fields["magnitude"])
    if name == JavaType.DECIMAL.value:
        unscaled = fields["intVal"]
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -fields["scale"]))
    if name == JavaType.UUID.value:
        mask = (1 << 64) - 1
        return uuid.UUID(int=(fields["mostSigBits"] & mask) << 64 | fields["leastSigBits"] & mask)
    if name.startswith("java.lang."):
        return fields["value"]
    raise ValueError(name)


# --- writing --------------------------------------------------------------------------------------------------------------------

_NUMBER = ("java.lang.Number", "86ac951d0b94e08b", 2, (), None)
_CLASSES: dict[str, tuple[str, str, int, tuple[tuple[str, str, str], ...], tuple[Any, ...] | None]] = {
    "[Ljava.lang.Object;": ("[Ljava.lang.Object;", "90ce589f1073296c", 2, (), None),
    _SER: (_SER, "955d84ba1b2248b2", 12, (), None),
    "[B": ("[B", "acf317f8060854e0", 2, (), None),
    "java.lang.Integer": ("java.lang.Integer", "12e2a0a4f7818738", 2, (("I", "value", ""),), _NUMBER),
    "java.lang.Long": ("java.lang.Long", "3b8be490cc8f23df", 2, (("J", "value", ""),), _NUMBER),
    "java.lang.Double": ("java.lang.Double", "80b3c24a296bfb04", 2, (("D", "value", ""),), _NUMBER),
    "java.lang.Float": ("java.lang.Float", "daedc9a2db3cf0ec", 2, (("F", "value", ""),), _NUMBER),
    "java.lang.Boolean": ("java.lang.Boolean", "cd207280d59cfaee", 2, (("Z", "value", ""),), None),
    "java.util.UUID": (
        "java.util.UUID", "bc9903f7986d852f", 2, (("J", "leastSigBits", ""), ("J", "mostSigBits", "")), None,
    ),
    "java.math.BigDecimal": (
        "java.math.BigDecimal", "54c71557f981284f", 3,
        (("I", "scale", ""), ("L", "intVal", "Ljava/math/BigInteger;")), _NUMBER,
    ),
    "java.math.BigInteger": (
        "java.math.BigInteger", "8cfc9f1fa93bfb1d", 3,
        (
            ("I", "bitCount", ""), ("I", "bitLength", ""), ("I", "firstNonzeroByteNum", ""), ("I", "lowestSetBit", ""),
            ("I", "signum", ""), ("[", "magnitude", "[B"),
        ),
        _NUMBER,
    ),
}  # fmt: skip
"""Class, version, flags, fields (type, name, class of the field), and what it extends."""


def write_java_array(values: list[tuple[JavaType, Any]] | None) -> bytes:
    """Serializes an ``Object[]``; a value of None is Java's null, and so is no list."""
    writer = _Writer()
    if values is None:
        return _MAGIC + bytes([_NULL])
    out = writer.out
    out.append(_ARRAY)
    writer.describe("[Ljava.lang.Object;")
    writer.assign(None)
    out += struct.pack(">i", len(values))
    for type_, value in values:
        writer.write(type_, value)
    return _MAGIC + bytes(out)


@dataclass(slots=True)
class _Writer:
    out: bytearray = field(default_factory=bytearray)
    _known: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def assign(self, name: str | None) -> None:
        """Assigns the next handle."""
        if name is not None:
            self._known[name] = self._count
        self._count += 1

    def _refer(self, name: str) -> bool:
        if name not in self._known:
            return False
        self.out += struct.pack(">BI", _REFERENCE, _FIRST_HANDLE + self._known[name])
        return True

    def describe(self, name: str) -> None:
        self._describe(_CLASSES[name])

    def _describe(self, class_: tuple[Any, ...] | None) -> None:
        if class_ is None:
            self.out.append(_NULL)
            return
        name, version, flags, fields, parent = class_
        if self._refer(name):
            return
        self.out.append(_CLASS)
        self._text(name)
        self.out += bytes.fromhex(version)
        self.assign(name)
        self.out += struct.pack(">BH", flags, len(fields))
        for type_, field_name, field_class in fields:
            self.out += type_.encode()
            self._text(field_name)
            # The name of a field's class is a text with a handle of its own; "/" keeps it apart from classes.
            if field_class and not self._refer("/" + field_class):
                self.out.append(_STRING)
                self._text(field_class)
                self.assign("/" + field_class)
        self.out.append(_END)
        self._describe(parent)

    def _text(self, text: str) -> None:
        raw = _modified_utf8(text)
        self.out += struct.pack(">H", len(raw)) + raw

    def _object(self, name: str) -> None:
        self.out.append(_OBJECT)
        self.describe(name)
        self.assign(None)

    def _byte_array(self, value: bytes) -> None:
        self.out.append(_ARRAY)
        self.describe("[B")
        self.assign(None)
        self.out += struct.pack(">i", len(value)) + value

    def write(self, type_: JavaType, value: Any) -> None:
        out = self.out
        if value is None:
            out.append(_NULL)
            return
        match type_:
            case JavaType.STRING:
                raw = _modified_utf8(value)
                is_long = len(raw) > 0xFFFF
                out += struct.pack(">BQ" if is_long else ">BH", _LONG_STRING if is_long else _STRING, len(raw)) + raw
                self.assign(None)
            case JavaType.BYTES:
                self._byte_array(value)
            case JavaType.DECIMAL:
                self._decimal(value)
            case JavaType.BIG_INTEGER:
                self._big_integer(value)
            case JavaType.UUID:
                self._object(type_.value)
                out += value.bytes[8:] + value.bytes[:8]
            case JavaType.LOCAL_DATE:
                self._time_value(_SER_LOCAL_DATE.pack(3, value.year, value.month, value.day))
            case JavaType.DURATION:
                seconds = value.days * 86400 + value.seconds
                self._time_value(_SER_DURATION.pack(1, seconds, value.microseconds * 1000))
            case _:
                form = {JavaType.INTEGER: ">i", JavaType.LONG: ">q", JavaType.DOUBLE: ">d", JavaType.FLOAT: ">f"}
                self._object(type_.value)
                out += struct.pack(form.get(type_, ">?"), value)

    def _time_value(self, data: bytes) -> None:
        self._object(_SER)
        self.out += bytes([_BLOCK, len(data)]) + data + bytes([_END])

    def _decimal(self, value: Decimal) -> None:
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise DataError(f"{value} is not a number")
        unscaled = int("".join(map(str, digits)))
        self._object(JavaType.DECIMAL.value)
        self.out += struct.pack(">i", -exponent)
        self._big_integer(-unscaled if sign else unscaled)
        self.out.append(_END)

    def _big_integer(self, value: int) -> None:
        self._object(JavaType.BIG_INTEGER.value)
        self.out += struct.pack(">iiiii", -1, -1, -2, -2, (value > 0) - (value < 0))
        self._byte_array(abs(value).to_bytes((value.bit_length() + 7) // 8))
        self.out.append(_END)


def _modified_utf8(text: str) -> bytes:
    """Java's UTF-8: surrogate pairs are two characters, and U+0000 has two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    plain = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return plain.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")

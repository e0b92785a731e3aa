"""The binary encoding of VARIANT values, which hold JSON and some more types.

Format: ``VariantEncoding.md`` of Apache Parquet. Numbers are exact (promise 8): integers of 64 bits, decimals of 38 digits with
their scale, and doubles only where the number's text is the text of the double.
"""

from __future__ import annotations

import decimal
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from connect.errors import DataError
from connectors.spark.decode.number_text import exact_double

VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""The Arrow type of a VARIANT column. Its fields cannot be null, as in no other struct of the sink."""

_VERSION, _SORTED = 1, 1 << 4
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DOUBLE, _DECIMAL4, _DECIMAL8, _DECIMAL16 = range(11)
_DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _STRING = range(11, 17)
_INTEGERS = tuple(
    (kind, size, -(1 << 8 * size - 1), 1 << 8 * size - 1) for kind, size in ((_INT8, 1), (_INT16, 2), (_INT32, 4), (_INT64, 8))
)
"""By kind: size in bytes, least value, and the end of the values."""
_DECIMALS = ((_DECIMAL4, 4, 9), (_DECIMAL8, 8, 18), (_DECIMAL16, 16, 38))
_DIGITS = 38
_MAX_SHORT_STRING = 63
_MAX_SIZE = 1 << 24
"""Spark's limit. Offsets of three bytes reach as far."""
_MAX_SMALL = 255
_MAX_RECURSION = 50


class Date(NamedTuple):
    """Days since 1970: Python has no dates outside the years 1 to 9999."""

    days: int


class Timestamp(NamedTuple):
    """Microseconds since 1970, of an instant or of a wall clock."""

    micros: int
    is_instant: bool


class Float(NamedTuple):
    """A number of 32 bits."""

    value: float


class Variant(NamedTuple):
    """A value in binary form, with the names of all fields in its objects."""

    metadata: bytes
    value: bytes


def is_variant(type_: pa.DataType) -> bool:
    """Whether this is the type of a VARIANT, which is not like other structs."""
    return bool(type_ == VARIANT)


def encode_variant(node: Any) -> Variant:
    """The VARIANT of parsed JSON (see :func:`connectors.spark.decode.exact_values.parse_document`), also with bytes and the types
    of this module.

    Raises DataError for a value that VARIANT cannot hold; its field is the path inside the value.
    """
    try:
        encoder = _encoder(frozenset(_names_in(node)))
        found = Variant(encoder.metadata, encoder.encode(node))
    except UnicodeEncodeError as e:
        raise DataError(f"text with half a character (\\u{ord(e.object[e.start]):04x}) cannot be stored") from e
    if max(len(found.metadata), len(found.value)) > _MAX_SIZE:
        size = max(len(found.metadata), len(found.value))
        raise DataError(f"a VARIANT has at most {_MAX_SIZE} bytes, and this value needs {size}")
    return found


def _names_in(node: Any) -> Iterator[str]:
    open_ = [node]
    while open_:
        node = open_.pop()
        if isinstance(node, dict):
            yield from node
            open_ += node.values()
        elif isinstance(node, list):
            open_ += node


def _metadata(names: Sequence[str]) -> bytes:
    texts = [name.encode() for name in names]
    size = _width(max(sum(map(len, texts)), len(texts)))
    header = _VERSION | (_SORTED if names else 0) | (size - 1) << 6
    return bytes([header]) + len(texts).to_bytes(size, "little") + _offsets(texts, size) + b"".join(texts)


def _width(number: int) -> int:
    """The number of bytes of an unsigned integer."""
    return max(1, (number.bit_length() + 7) // 8)


def _offsets(parts: Sequence[bytes], size: int) -> bytes:
    return _unsigned(itertools.accumulate(map(len, parts), initial=0), size)


def _unsigned(numbers: Iterable[int], size: int) -> bytes:
    return bytes(numbers) if size == 1 else b"".join([number.to_bytes(size, "little") for number in numbers])


def _primitive(kind: int, content: bytes = b"") -> bytes:
    return bytes([_PRIMITIVE | kind << 2]) + content


@dataclass(slots=True)
class _OpenContainer:
    """An object or array of which some elements are encoded."""

    names: list[str] | None
    """Of an object's members, sorted."""
    elements: list[Any]
    parts: list[bytes] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The place of the next element for a path."""
        at = len(self.parts)
        return f"[{at}]" if self.names is None else self.names[at]


class _Encoder:
    """Encodes values with these names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.metadata = _metadata(names)
        self._ids = {name: i for i, name in enumerate(names)}
        self._id_size = _width(max(len(names) - 1, 0))

    def encode(self, node: Any) -> bytes:
        """Encodes a value. Raises DataError with the path."""
        try:
            return self._encode_flat(node, _MAX_RECURSION)
        except (DataError, RecursionError):
            return self._encode_deep(node)

    def _encode_flat(self, node: Any, depth: int) -> bytes:
        encode = _LEAVES.get(type(node))
        if encode is not None:
            return encode(node)
        if not depth:
            raise RecursionError
        if isinstance(node, dict):
            names = sorted(node)
            return self._close(names, [self._encode_flat(node[name], depth - 1) for name in names])
        if isinstance(node, list):
            return self._close(None, [self._encode_flat(item, depth - 1) for item in node])
        return _other_leaf(node)

    def _encode_deep(self, node: Any) -> bytes:
        """Without recursion: JSON may be nested more deeply than Python's stack allows. Errors have the path."""
        opened: list[_OpenContainer] = []
        while True:
            if isinstance(node, dict):
                names = sorted(node)
                opened.append(_OpenContainer(names, [node[name] for name in names]))
            elif isinstance(node, list):
                opened.append(_OpenContainer(None, node))
            else:
                try:
                    encode = _LEAVES.get(type(node))
                    encoded = _other_leaf(node) if encode is None else encode(node)
                except DataError as e:
                    e.field = _path([container.place for container in opened])
                    raise
                if not opened:
                    return encoded
                opened[-1].parts.append(encoded)
            while len(opened[-1].parts) == len(opened[-1].elements):
                whole = opened.pop()
                encoded = self._close(whole.names, whole.parts)
                if not opened:
                    return encoded
                opened[-1].parts.append(encoded)
            node = opened[-1].elements[len(opened[-1].parts)]

    def _close(self, names: Sequence[str] | None, parts: Sequence[bytes]) -> bytes:
        """The object with these names, or the array, from its encoded elements."""
        size, is_large = _width(sum(map(len, parts))), len(parts) > _MAX_SMALL
        count = len(parts).to_bytes(4 if is_large else 1, "little")
        content = _offsets(parts, size) + b"".join(parts)
        if names is None:
            return bytes([_ARRAY | (size - 1) << 2 | is_large << 4]) + count + content
        header = _OBJECT | (size - 1) << 2 | (self._id_size - 1) << 4 | is_large << 6
        return bytes([header]) + count + _unsigned([self._ids[name] for name in names], self._id_size) + content


@lru_cache(maxsize=256)
def _encoder(names: frozenset[str]) -> _Encoder:
    """The values of a column often have the same names."""
    return _Encoder(sorted(names))


def _path(places: Sequence[str]) -> str | None:
    found = ""
    for place in places:
        found += place if place.startswith("[") or not found else f".{place}"
    return found or None


def _other_leaf(node: Any) -> bytes:
    match node:
        case bytes():
            return _primitive(_BINARY, len(node).to_bytes(4, "little") + node)
        case Date():
            return _primitive(_DATE, node.days.to_bytes(4, "little", signed=True))
        case Timestamp():
            kind = _TIMESTAMP if node.is_instant else _TIMESTAMP_NTZ
            return _primitive(kind, node.micros.to_bytes(8, "little", signed=True))
        case Float():
            return _primitive(_FLOAT, struct.pack("<f", node.value))
    raise DataError(f"a VARIANT cannot hold a value of type {type(node).__name__}")


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) <= _MAX_SHORT_STRING:
        return bytes([_SHORT_STRING | len(data) << 2]) + data
    return _primitive(_STRING, len(data).to_bytes(4, "little") + data)


def _integer(number: int) -> bytes:
    for kind, size, least, end in _INTEGERS:
        if least <= number < end:
            return _primitive(kind, number.to_bytes(size, "little", signed=True))
    if abs(number) < 10**_DIGITS:
        return _primitive(_DECIMAL16, b"\0" + number.to_bytes(16, "little", signed=True))
    return _double_of(number)


def _number(number: decimal.Decimal) -> bytes:
    exact = _as_integer(number)
    if isinstance(exact, int):
        return _integer(exact)
    if exact is not None:
        encoded = _decimal(exact)
        if encoded is not None:
            return encoded
        # There is no room for the zeros at its end.
        shortest = exact.normalize(decimal.Context(prec=len(exact.as_tuple().digits)))
        if shortest.as_tuple() != exact.as_tuple():
            return _number(shortest)
    return _double_of(number)


def _double_of(number: int | decimal.Decimal) -> bytes:
    double = exact_double(number)
    if double is None:
        text = str(number)
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise DataError(f"a VARIANT cannot hold the number {shown} exactly: neither a decimal of 38 digits nor a double can")
    return _double(double)


def _double(number: float) -> bytes:
    return _primitive(_DOUBLE, struct.pack("<d", number))


def _decimal(number: decimal.Decimal) -> bytes | None:
    sign, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    for kind, size, most in _DECIMALS:
        if 0 <= scale <= most and len(digits) <= most:
            unscaled = int("".join(map(str, digits)))
            return _primitive(kind, bytes([scale]) + (-unscaled if sign else unscaled).to_bytes(size, "little", signed=True))
    return None


def _as_integer(number: decimal.Decimal) -> int | decimal.Decimal | None:
    """The number as an integer if it has no digits after a point; None if only a double can hold it."""
    if not number.is_finite() or (number.is_signed() and not number):
        return None  # decimals have no -0
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent >= 0:
        return int(number) if number.adjusted() < _DIGITS else None
    return number


_LEAVES: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda node: _primitive(_NULL),
    bool: lambda node: _primitive(_TRUE if node else _FALSE),
    str: _string,
    int: _integer,
    decimal.Decimal: _number,
    float: _double,
}


def encode_variants(nodes: Sequence[Any]) -> pa.Array:
    """The VARIANTs of these values in an Arrow array; None becomes null, and a null of JSON is no None but :data:`JSON_NULL`."""
    return variant_array([None if node is None else encode_variant(None if node is JSON_NULL else node) for node in nodes])


def variant_array(found: Sequence[Variant | None]) -> pa.Array:
    """VARIANTs in an Arrow array."""
    metadata = pa.array([b"" if v is None else v.metadata for v in found], pa.binary())
    values = pa.array([b"" if v is None else v.value for v in found], pa.binary())
    mask = pa.array([v is None for v in found], pa.bool_())
    return pa.StructArray.from_arrays([metadata, values], fields=list(VARIANT), mask=mask)


class _JsonNull:
    """The null of a JSON document, which is a value."""


JSON_NULL = _JsonNull()


def decode_variant(metadata: bytes, value: bytes) -> Any:
    """The node of a VARIANT: the inverse of :func:`encode_variant`."""
    return _Decoder(metadata, value).decode(0)


class _Decoder:
    def __init__(self, metadata: bytes, value: bytes) -> None:
        self._data = value
        size = (metadata[0] >> 6) + 1
        count = int.from_bytes(metadata[1 : 1 + size], "little")
        ends = [int.from_bytes(metadata[at : at + size], "little") for at in range(1 + size, 1 + size * (count + 2), size)]
        texts = 1 + size * (count + 2)
        self._names = [metadata[texts + a : texts + b].decode() for a, b in itertools.pairwise(ends)]

    def _unsigned(self, at: int, size: int) -> int:
        return int.from_bytes(self._data[at : at + size], "little")

    def _signed(self, at: int, size: int) -> int:
        return int.from_bytes(self._data[at : at + size], "little", signed=True)

    def decode(self, at: int) -> Any:
        header = self._data[at]
        basic, kind = header & 3, header >> 2
        if basic == _SHORT_STRING:
            return self._data[at + 1 : at + 1 + kind].decode()
        if basic == _OBJECT:
            size, id_size, count_size = (kind & 3) + 1, (kind >> 2 & 3) + 1, 4 if kind >> 4 & 1 else 1
            count = self._unsigned(at + 1, count_size)
            ids = at + 1 + count_size
            offsets = ids + count * id_size
            start = offsets + (count + 1) * size
            return {
                self._names[self._unsigned(ids + i * id_size, id_size)]: self.decode(
                    start + self._unsigned(offsets + i * size, size)
                )
                for i in range(count)
            }
        if basic == _ARRAY:
            size, count_size = (kind & 3) + 1, 4 if kind >> 2 & 1 else 1
            count = self._unsigned(at + 1, count_size)
            offsets = at + 1 + count_size
            start = offsets + (count + 1) * size
            return [self.decode(start + self._unsigned(offsets + i * size, size)) for i in range(count)]
        return self._primitive(kind, at + 1)

    def _primitive(self, kind: int, at: int) -> Any:
        for integer, size, _, _ in _INTEGERS:
            if kind == integer:
                return self._signed(at, size)
        for number, size, _ in _DECIMALS:
            if kind == number:
                context = decimal.Context(prec=_DIGITS)
                return decimal.Decimal(self._signed(at + 1, size)).scaleb(-self._data[at], context)
        match kind:
            case 0:
                return None
            case 1 | 2:
                return kind == _TRUE
            case 7:
                return struct.unpack_from("<d", self._data, at)[0]
            case 11:
                return Date(self._signed(at, 4))
            case 12 | 13:
                return Timestamp(self._signed(at, 8), kind == _TIMESTAMP)
            case 14:
                return Float(struct.unpack_from("<f", self._data, at)[0])
            case 15:
                return self._data[at + 4 : at + 4 + self._unsigned(at, 4)]
            case 16:
                return self._data[at + 4 : at + 4 + self._unsigned(at, 4)].decode()
        raise DataError(f"a VARIANT has a value of type {kind}, which is not supported")

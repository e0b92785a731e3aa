"""Java's serialized arrays. The bytes are those of ``ObjectOutputStream`` in Java 17."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from connect.errors import DataError
from connect.java.serialization import JavaType, parse_java_array, write_java_array

_OBJECTS = "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870000000"
_NUMBER = "787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
_INTEGER = f"737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565{_NUMBER}"
_LONG = "7372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565"
_DECIMAL = (
    "737200146a6176612e6d6174682e426967446563696d616c54c71557f981284f0300024900057363616c654c0006696e7456616c7400164c6a6176612f"
    f"6d6174682f426967496e74656765723b{_NUMBER}"
)
_BIG_INTEGER = (
    "737200146a6176612e6d6174682e426967496e74656765728cfc9f1fa93bfb1d030006490008626974436f756e744900096269744c656e6774684900"
    "1366697273744e6f6e7a65726f427974654e756d49000c6c6f776573745365744269744900067369676e756d5b00096d61676e69747564657400025b42"
    "7871007e0004fffffffffffffffffffffffefffffffe"
)
_UUID = "7372000e6a6176612e7574696c2e55554944bc9903f7986d852f0200024a000c6c65617374536967426974734a000b6d6f73745369674269747378"

_SER = "72000d6a6176612e74696d652e536572955d84ba1b2248b20c00007870"

_KNOWN: list[tuple[str, list[tuple[JavaType, Any]] | None]] = [
    ("aced000570", None),
    (f"{_OBJECTS}00", []),
    (f"{_OBJECTS}01{_INTEGER}00000001", [(JavaType.INTEGER, 1)]),
    (f"{_OBJECTS}02{_INTEGER}000000017371007e000200000002", [(JavaType.INTEGER, 1), (JavaType.INTEGER, 2)]),
    (
        f"{_OBJECTS}04{_INTEGER}00000001{_LONG}7871007e00030000000000000001740001787371007e000200000002",
        [(JavaType.INTEGER, 1), (JavaType.LONG, 1), (JavaType.STRING, "x"), (JavaType.INTEGER, 2)],
    ),
    (f"{_OBJECTS}01{_LONG}{_NUMBER}0000000000000001", [(JavaType.LONG, 1)]),
    (f"{_OBJECTS}0174000dc3a4e282aceda0bdedb880c080", [(JavaType.STRING, "ä€😀\0")]),
    (f"{_OBJECTS}0270{_INTEGER}00000005", [(JavaType.LONG, None), (JavaType.INTEGER, 5)]),
    (
        f"{_OBJECTS}01{_DECIMAL}00000002{_BIG_INTEGER}00000001757200025b42acf317f8060854e0020000787000000001967878",
        [(JavaType.DECIMAL, Decimal("1.50"))],
    ),
    (
        f"{_OBJECTS}01{_DECIMAL}00000000{_BIG_INTEGER}00000000757200025b42acf317f8060854e00200007870000000007878",
        [(JavaType.DECIMAL, Decimal(0))],
    ),
    (
        f"{_OBJECTS}01{_UUID}70a456426614174000123e4567e89b12d3",
        [(JavaType.UUID, UUID("123e4567-e89b-12d3-a456-426614174000"))],
    ),
    (f"{_OBJECTS}01757200025b42acf317f8060854e00200007870000000020102", [(JavaType.BYTES, b"\1\2")]),
    (
        f"{_OBJECTS}0273{_SER}770703000007e8021d787371007e0002770703000003e8010278",
        [(JavaType.LOCAL_DATE, dt.date(2024, 2, 29)), (JavaType.LOCAL_DATE, dt.date(1000, 1, 2))],
    ),
    (
        f"{_OBJECTS}0273{_SER}770d01ffffffffffd1e990000f4240787371007e0002770d010000000000000005000003e878",
        [(JavaType.DURATION, -dt.timedelta(seconds=3020399.999)), (JavaType.DURATION, dt.timedelta(seconds=5, microseconds=1))],
    ),
]


@pytest.mark.parametrize(("stored", "values"), _KNOWN)
def test_arrays_are_written_and_parsed_as_in_java(stored: str, values: list[tuple[JavaType, Any]] | None) -> None:
    assert write_java_array(values).hex() == stored
    assert parse_java_array(bytes.fromhex(stored)) == (None if values is None else [value for _, value in values])


def test_arrays_of_all_types_are_read_back() -> None:
    values = [
        (JavaType.DECIMAL, Decimal("-123456789012345678901234567890.5")), (JavaType.DECIMAL, Decimal("7.10")),
        (JavaType.UUID, UUID(int=2**128 - 1)), (JavaType.UUID, UUID(int=1)), (JavaType.BOOLEAN, True), (JavaType.DOUBLE, 1.5),
        (JavaType.FLOAT, -2.5), (JavaType.STRING, "y" * 70_000), (JavaType.BYTES, b""), (JavaType.BYTES, b"\xff"),
    ]  # fmt: skip
    assert parse_java_array(write_java_array(values)) == [value for _, value in values]


@pytest.mark.parametrize(
    "stored",
    [
        "", "aced0005", "aced000574000161", f"{_OBJECTS}01", f"{_OBJECTS}0171007e0fff",
        "aced00057372000e6a6176612e7574696c2e44617465686a81014b597419030000787077080000000000000000787",
    ],
)  # fmt: skip
def test_anything_else_is_rejected(stored: str) -> None:
    with pytest.raises(DataError):
        parse_java_array(bytes.fromhex(stored if len(stored) % 2 == 0 else stored + "0"))

"""Decoders of rows in MySQL's text protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from connect.errors import DataError
from connectors.databases.mysql.row_decoder import compile_row_decoder


@dataclass(frozen=True)
class Decoder:
    type_name: str
    read: Callable[[bytes], Any]
    inline: str = "{c}({b})"
    exact: Callable[[bytes], Any] | None = None
    exact_is_value: bool = False


def row(*values: bytes | None) -> bytes:
    payload = b"".join(b"\xfb" if value is None else bytes([len(value)]) + value for value in values)
    return len(payload).to_bytes(4, "little") + payload


def test_inline_code_uses_the_connectors_own_constants() -> None:
    names = {b"1": "one"}
    decoders = [Decoder("text", bytes.decode, "names[{b}]"), Decoder("integer", int, "int({x})")]
    decode = compile_row_decoder(("a", "b"), decoders, constants={"names": names})
    data = row(b"1", b"42") + row(None, None)
    rows: list[Any] = []
    assert decode(data, data.decode("latin-1"), 0, 10, rows, []) == len(data)
    assert rows == [["one", 42], [None, None]]


def test_an_error_names_the_column_and_its_type() -> None:
    decode = compile_row_decoder(("a", "b"), [None, Decoder("integer", int, "int({x})")])
    data = row(b"x", b"4x")
    with pytest.raises(DataError, match="Column b: b'4x' cannot be decoded as integer"):
        decode(data, data.decode("latin-1"), 0, 10, [], [])

"""Generates decoders of rows in the text protocol for the columns of a result.

Generated code avoids a call per row and most calls per value. Names from the database never enter the code; it refers to columns
by number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from connect.errors import ConnectError, DataError
from connect.generated_code import define_functions

Decode = Callable[[bytes, str, int, int, list[Any], list[Any]], int]
"""``decode(data, text, at, max_rows, rows, exact)`` appends the complete rows in ``data`` from ``at`` on, at most
``max_rows``, and returns where it stopped: at an incomplete row or another packet. ``text`` is ``data`` as Latin-1."""

_LONG = 251


class TextColumnDecoder(Protocol):
    """How to decode a column."""

    @property
    def type_name(self) -> str:
        """What values become, for messages."""

    @property
    def read(self) -> Callable[[bytes], Any]:
        """Decodes the bytes of any value. May raise ValueError, ArithmeticError, or an error of its own."""

    @property
    def inline(self) -> str:
        """Code for a value: ``{x}`` is its text as Latin-1, ``{b}`` its bytes, and ``{c}`` is ``read``. It may use ``Decimal``,
        ``day``, ``date``, ``time``, ``stamp``, and ``from_bytes``, and may raise ValueError for a value that needs ``read``."""

    @property
    def exact(self) -> Callable[[bytes], Any] | None:
        """Decodes the exact value, if the column has one."""

    @property
    def exact_is_value(self) -> bool:
        """Whether the exact value is the value itself."""


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Returns start and end of the value whose length is encoded at ``at``; (-1, at + 1) for null."""
    first = data[at]
    if first < _LONG:
        return at + 1, at + 1 + first
    if first == _LONG:
        return -1, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    begin = at + 1 + width
    return begin, begin + int.from_bytes(data[at + 1 : begin], "little")


def compile_row_decoder(
    names: Sequence[str],
    decoders: Sequence[TextColumnDecoder | None],
    exact: Sequence[int] = (),
    constants: Mapping[str, Any] | None = None,
) -> Decode:
    """Compiles the decoder of a result with columns of these names; it omits columns without a decoder.

    ``exact`` has the indexes of columns whose exact values are also returned. ``constants`` are further names for inline code.
    """
    space: dict[str, Any] = {
        "Decimal": Decimal,
        "day": dt.date,
        "date": dt.date.fromisoformat,
        "time": dt.time.fromisoformat,
        "stamp": dt.datetime.fromisoformat,
        "from_bytes": int.from_bytes,
        "length_at": read_length,
        "explain": _explainer(names, decoders, exact),
        **(constants or {}),
    }
    code = [
        "def decode(d, s, i, most, rows, exact):",
        "    end, r = len(d), i",
        "    add = rows.append",
        "    n = 0",
        "    try:",
        "        while most and end - i > 4:",
        "            l = d[i] | d[i + 1] << 8 | d[i + 2] << 16",
        "            if i + 4 + l > end or l == 16777215 or d[i + 4] == 255 or (d[i + 4] == 254 and l < 9):",
        "                break",
        "            r = i",
        "            i += 4",
    ]
    for number, (_, decoder) in enumerate(zip(names, decoders, strict=True)):
        code += _column_code(number, decoder, number in exact, space)
    values = ", ".join(f"v{number}" for number, decoder in enumerate(decoders) if decoder is not None)
    code.append(f"            add([{values}])")
    if exact:
        code.append(f"            exact.append(({', '.join(f'e{number}' for number in exact)},))")
    code += [
        "            most -= 1",
        "        return i",
        "    except (ValueError, ArithmeticError, IndexError, KeyError) as e:",
        "        explain(d, r + 4, e)",
        "        raise",
    ]
    decode: Decode = define_functions(code, space, title="MySQL row decoder")["decode"]
    return decode


def _column_code(number: int, decoder: TextColumnDecoder | None, exact: bool, space: dict[str, Any]) -> list[str]:
    if decoder is None:
        value = "None"
    else:
        space[f"c{number}"] = decoder.read
        value = decoder.inline.format(x="s[i:j]", b="d[i:j]", c=f"c{number}")
    found = [f"v{number} = {value}"]
    missing = [f"v{number} = None"]
    if exact and decoder is not None:
        space[f"x{number}"] = decoder.exact
        found.append(f"e{number} = v{number}" if decoder.exact_is_value else f"e{number} = x{number}(d[i:j])")
        missing.append(f"e{number} = None")
    pad = " " * 12
    return [
        f"{pad}l = d[i]",
        f"{pad}if l < 251:",
        f"{pad}    i += 1",
        f"{pad}    j = i + l",
        *(f"{pad}    {line}" for line in found),
        f"{pad}    i = j",
        f"{pad}elif l == 251:",
        *(f"{pad}    {line}" for line in missing),
        f"{pad}    i += 1",
        f"{pad}else:",
        f"{pad}    i, j = length_at(d, i)",
        *(f"{pad}    {line}" for line in found),
        f"{pad}    i = j",
    ]


def _explainer(
    names: Sequence[str], decoders: Sequence[TextColumnDecoder | None], exact: Sequence[int]
) -> Callable[[bytes, int, Exception], None]:
    """Returns a function that decodes a row again, value by value, to find the column that fails."""

    def explain(data: bytes, at: int, error: Exception) -> None:
        for number, (name, decoder) in enumerate(zip(names, decoders, strict=True)):
            begin, at = read_length(data, at)
            if begin < 0 or decoder is None:
                continue
            value = data[begin:at]
            try:
                decoder.read(value)
                if number in exact and decoder.exact is not None:
                    decoder.exact(value)
            except ConnectError:
                raise
            except (ValueError, ArithmeticError) as e:
                raise DataError(f"Column {name}: {value[:100]!r} cannot be decoded as {decoder.type_name} ({e})") from e
        raise DataError(f"A row of columns {', '.join(names)} cannot be decoded: {error}") from error

    return explain

"""Decoders of rows, generated for the columns of a result.

Generated code pays: a row costs no call, and a value only those that make it what it is. Names from the database never enter the
code; it refers to columns by number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from connect.errors import ConnectError, DataError
from connect.generated_code import define_functions
from connectors.jdbc.dialects.mysql.types import Described, Reading

Decode = Callable[[bytes, str, int, int, list[Any], list[Any]], int]
"""``decode(data, text, at, most, rows, exact)``: appends the rows that lie whole in ``data`` from ``at`` on, ``most`` at most,
and returns where it stopped: at what is no row, or not whole. ``text`` is ``data`` as Latin-1."""

_LONG = 251


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """Where the value begins whose length is written at ``at``, and where it ends; (-1, at + 1) for null."""
    first = data[at]
    if first < _LONG:
        return at + 1, at + 1 + first
    if first == _LONG:
        return -1, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    begin = at + 1 + width
    return begin, begin + int.from_bytes(data[at + 1 : begin], "little")


def decoder(columns: Sequence[Described], readings: Sequence[Reading | None], exact: Sequence[int]) -> Decode:
    """For the columns of a result; those without a reading are left out. ``exact`` are the numbers of columns whose values are
    also wanted as they are."""
    space: dict[str, Any] = {
        "Decimal": Decimal,
        "day": dt.date,
        "date": dt.date.fromisoformat,
        "time": dt.time.fromisoformat,
        "stamp": dt.datetime.fromisoformat,
        "from_bytes": int.from_bytes,
        "length_at": length_at,
        "explain": _explainer(columns, readings, exact),
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
    for number, (column, reading) in enumerate(zip(columns, readings, strict=True)):
        code += _column_code(number, column, reading, number in exact, space)
    values = ", ".join(f"v{number}" for number, reading in enumerate(readings) if reading is not None)
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


def _column_code(number: int, column: Described, reading: Reading | None, exact: bool, space: dict[str, Any]) -> list[str]:
    if reading is None:
        value = "None"
    else:
        space[f"c{number}"] = reading.read
        value = reading.inline.format(x="s[i:j]", b="d[i:j]", c=f"c{number}")
    found = [f"v{number} = {value}"]
    missing = [f"v{number} = None"]
    if exact and reading is not None:
        space[f"x{number}"] = reading.exact
        found.append(f"e{number} = v{number}" if reading.exact_is_value else f"e{number} = x{number}(d[i:j])")
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
    columns: Sequence[Described], readings: Sequence[Reading | None], exact: Sequence[int]
) -> Callable[[bytes, int, Exception], None]:
    """Reads a row again, value by value, to say which column it is that cannot be read."""

    def explain(data: bytes, at: int, error: Exception) -> None:
        for number, (column, reading) in enumerate(zip(columns, readings, strict=True)):
            begin, at = length_at(data, at)
            if begin < 0 or reading is None:
                continue
            value = data[begin:at]
            try:
                reading.read(value)
                if number in exact and reading.exact is not None:
                    reading.exact(value)
            except ConnectError:
                raise
            except (ValueError, ArithmeticError) as e:
                raise DataError(
                    f"Column {column.name}: {value[:100]!r} cannot be read as {reading.schema.type.value} ({e})"
                ) from e
        raise DataError(f"A row of columns {', '.join(column.name for column in columns)} cannot be read: {error}") from error

    return explain

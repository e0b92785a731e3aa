"""Formats columns of text as the lines of a COPY or as an array. Only columns with something to escape pay for escaping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from connect.errors import DataError
from connectors.databases.postgresql.arrays import quote_element
from connectors.jdbc.dialects.postgres.value_encoder import TextStyle

Texts = Sequence[str | None]

_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_lines(columns: Sequence[tuple[str, Texts, TextStyle]]) -> bytes:
    """Formats rows for COPY. Each column comes with the name of its field. Raises DataError for text that PostgreSQL cannot
    store."""
    cells: list[Iterable[str]] = [_copy_cells(name, texts, style) for name, texts, style in columns]
    lines = "\n".join(map("\t".join, zip(*cells, strict=True))) + "\n"
    try:
        return lines.encode()
    except UnicodeEncodeError:
        raise _surrogate_error(columns) from None


def _copy_cells(name: str, texts: Texts, style: TextStyle) -> Iterable[str]:
    if style is TextStyle.TEXT:
        joined = _join(texts)
        _reject_nul(name, joined)
        if "\\" in joined or "\t" in joined or "\n" in joined or "\r" in joined:
            return ["\\N" if text is None else text.translate(_COPY_ESCAPES) for text in texts]
    elif style is TextStyle.HEX:
        return ["\\N" if text is None else "\\" + text for text in texts]
    return texts if _has_no_null(texts) else ["\\N" if text is None else text for text in texts]


def array_parameter(name: str, texts: Texts, style: TextStyle) -> str:
    """Formats a column as an array of one dimension."""
    if style is TextStyle.CLEAN:
        return "{" + ",".join(texts if _has_no_null(texts) else ["NULL" if text is None else text for text in texts]) + "}"
    if style is TextStyle.HEX:
        return "{" + ",".join("NULL" if text is None else f'"\\{text}"' for text in texts) + "}"
    joined = _join(texts)
    _reject_nul(name, joined)
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise _surrogate_error([(name, texts, style)]) from None
    if '"' not in joined and "\\" not in joined and _has_no_null(texts):
        return '{"' + '","'.join(texts) + '"}'
    return "{" + ",".join("NULL" if text is None else quote_element(text) for text in texts) + "}"


def _has_no_null(texts: Texts) -> TypeGuard[Sequence[str]]:
    return None not in texts


def _join(texts: Texts) -> str:
    return "".join(texts if _has_no_null(texts) else [text for text in texts if text is not None])


def _reject_nul(name: str, joined: str) -> None:
    if "\0" in joined:
        raise DataError(f"Field {name} holds the character U+0000, which PostgreSQL cannot store in text")


def _surrogate_error(columns: Sequence[tuple[str, Texts, TextStyle]]) -> DataError:
    for name, texts, _ in columns:
        for text in texts:
            try:
                (text or "").encode()
            except UnicodeEncodeError:
                return DataError(f"Field {name} holds half of a surrogate pair, which is not a valid character")
    raise AssertionError("unreachable")

"""Writes the unscaled values of decimals in Base64, all values of a length at once."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

import numpy as np
import pyarrow as pa

_WIDTH = 16


def unscaled_texts(array: pa.Array) -> list[str | None]:
    """Returns the Base64 of each value of an array of decimal128: its two's complement, in as few bytes as hold it, the highest
    first."""
    low, high = np.frombuffer(array.buffers()[1], "<i8").reshape(-1, 2)[array.offset : array.offset + len(array)].T
    data = np.stack([high, low], axis=1).astype(">i8").view(np.uint8).reshape(-1, _WIDTH)
    lengths = _lengths(data)
    found: Any = np.empty(len(array), object)
    for length in np.unique(lengths).tolist():
        here = np.flatnonzero(lengths == length)
        found[here] = _encode(data[here, _WIDTH - length :])
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = None
    listed: list[str | None] = found.tolist()
    return listed


def _lengths(data: np.ndarray) -> np.ndarray:
    """How many bytes each value needs: without leading bytes that only repeat its sign."""
    signs = data[:, 0] >> 7
    differs = data != (signs * np.uint8(255))[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), _WIDTH - 1)
    has_other_sign = data[np.arange(len(data)), first] >> 7 != signs
    lengths: np.ndarray = _WIDTH - first + has_other_sign
    return lengths


def _encode(data: np.ndarray) -> list[str]:
    """The Base64 of rows of the same length."""
    count, length = data.shape
    missing = -length % 3
    whole = np.pad(data, ((0, 0), (0, missing)))
    texts = np.frombuffer(b2a_base64(whole.tobytes(), newline=False), np.uint8).reshape(count, -1)
    if missing:
        texts = texts.copy()
        texts[:, -missing:] = ord("=")
    text, width = texts.tobytes().decode(), texts.shape[1]
    return [text[at : at + width] for at in range(0, len(text), width)]

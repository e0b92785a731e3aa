"""Base64 as the original's JSON library reads it: padding required, blanks allowed between groups of four."""

from __future__ import annotations

import binascii
import re

_GROUPS = re.compile(r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*")
_RUN = re.compile(r"[A-Za-z0-9+/]+=*")


def decode_base64(text: str) -> bytes:
    """The bytes. Raises ValueError when the text is not base64."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        if not _GROUPS.fullmatch(text):
            raise
        return b"".join(binascii.a2b_base64(run) for run in _RUN.findall(_without_blanks(text)))
    if (len(data) + 2) // 3 * 4 != len(text):  # the codec lets padding pass that pads nothing
        raise ValueError("Padding behind a full group")
    return data


def _without_blanks(text: str) -> str:
    return re.sub(r"[\x00-\x20]", "", text)

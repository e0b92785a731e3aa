"""Names of character sets and collations."""

from __future__ import annotations

from typing import Final

_MAX_BYTES: Final = {
    "big5": 2, "ujis": 3, "sjis": 2, "euckr": 2, "gb2312": 2, "gbk": 2, "ucs2": 2, "cp932": 2, "eucjpms": 3, "gb18030": 4,
    "utf8": 3, "utf8mb3": 3, "utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4,
}  # fmt: skip


def charset_of_collation(collation: str) -> str | None:
    """Returns the character set of a collation by its name; None for those of any character set (MariaDB's ``uca1400_ai_ci``)."""
    charset, _, rest = collation.lower().partition("_")
    if charset == "binary" or (rest and charset != "uca1400"):
        return charset
    return None


def max_character_bytes(charset: str | None) -> int:
    """Returns the largest size of a character."""
    return _MAX_BYTES.get((charset or "").lower(), 1)

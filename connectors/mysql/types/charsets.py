"""Character sets of MySQL as codecs of Python.

Compared with the conversions of MariaDB 11.4, byte by byte and for all pairs of bytes: tests/integration/mysql/test_charsets.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from connect.errors import DataError

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
"""Connections read these as they are. The server converts texts in all others, perhaps with a loss."""

_CODECS = {
    **dict.fromkeys(UTF8, "utf-8"),
    "ascii": "ascii",
    "big5": "big5",
    "binary": "latin-1",  # as in Debezium, where the declaration of a text column names it
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "euckr": "cp949",  # MySQL's has the additions of code page 949
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ucs2": "utf-16-be",
    "ujis": "euc_jp",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
"""Character sets in which ASCII text takes more than a byte per character."""


@dataclass(frozen=True, slots=True)
class MySqlCharset:
    """How to decode bytes of a character set. ``inline`` is the same as an expression of a column reader."""

    name: str
    decode: Callable[[bytes], str]
    inline: str


@lru_cache(maxsize=128)
def find_charset(name: str) -> MySqlCharset:
    """Returns a character set by MySQL's name, in any case. Raises DataError if Python has no codec for it."""
    key = name.lower()
    codec = _CODECS.get(key)
    if codec is None:
        raise DataError(f"the character set {name} cannot be decoded; the known ones are {', '.join(sorted(_CODECS))}")
    if key in UTF8:
        return MySqlCharset(key, bytes.decode, "{x}.decode()")
    decode = _decode_latin1 if key == "latin1" else partial(_decode, codec)
    # Most texts are ASCII, which Python decodes several times as fast as others.
    inline = "" if key in _WIDE else "{x}.decode('latin-1') if {x}.isascii() else {c}({x})"
    return MySqlCharset(key, decode, inline)


def _decode(codec: str, data: bytes) -> str:
    return data.decode(codec)


_LATIN1 = str.maketrans({byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0xA0)})


def _decode_latin1(data: bytes) -> str:
    """MySQL's latin1 is code page 1252, whose five undefined bytes are control characters."""
    return data.decode("latin-1").translate(_LATIN1)

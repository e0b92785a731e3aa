"""Text to bytes and back with Java's charsets: nothing fails, what does not fit is replaced as Java replaces it."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from connect.errors import ConfigError, DataError

Encode = Callable[[str], bytes]
Decode = Callable[[bytes], str]
REPLACE = "connect.java-replace"


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """Java takes an encoded surrogate (ED A0..BF xx) for one malformed sequence; Python for two or three."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, end = error.object, error.end
    if data[error.start] == 0xED and error.start + 1 < len(data) and 0xA0 <= data[error.start + 1] <= 0xBF:
        end = error.start + 2
        if end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
    return "\ufffd", end


codecs.register_error(REPLACE, _replace_malformed)


def decode_utf8(data: bytes) -> str:
    """``new String(data, UTF_8)``."""
    return data.decode("utf-8", REPLACE)


def _encode_utf16(text: str) -> bytes:
    return b"\xfe\xff" + text.encode("utf-16-be", "surrogatepass") if text else b""


def _decode_utf16(data: bytes) -> str:
    if data[:2] == b"\xff\xfe":
        return data[2:].decode("utf-16-le", "replace")
    return data[2 if data[:2] == b"\xfe\xff" else 0 :].decode("utf-16-be", "replace")


def _decode_utf32(data: bytes) -> str:
    if data[:4] == b"\xff\xfe\x00\x00":
        return data[4:].decode("utf-32-le", "replace")
    return data[4 if data[:4] == b"\x00\x00\xfe\xff" else 0 :].decode("utf-32-be", "replace")


def charset(name: str, *, strict: bool = False) -> tuple[Encode, Decode]:
    """The two functions of a charset, by any name Java or Python knows. Raises ConfigError for one that neither does.

    Strict ones raise DataError where the others replace.
    """
    try:
        found = codecs.lookup(name)
        "".encode(name)  # refuses Python's codecs that are no text encodings, such as hex
    except (LookupError, ValueError) as e:
        raise ConfigError(f"Unsupported encoding {name}", key="converter.encoding") from e
    known = found.name
    if strict:
        return _strict_charset(name, known)
    if known == "utf-8":
        return (lambda text: text.encode("utf-8", "replace")), decode_utf8
    if known == "utf-16":
        return _encode_utf16, _decode_utf16
    if known == "utf-32":
        return (lambda text: text.encode("utf-32-be", "replace")), _decode_utf32
    return (lambda text: text.encode(known, "replace")), (lambda data: data.decode(known, "replace"))


_MARKED = {"utf-16": (b"\xfe\xff", b"\xff\xfe"), "utf-32": (b"\x00\x00\xfe\xff", b"\xff\xfe\x00\x00")}
"""The marks of byte order, big end first, of the charsets that may have one. Without one they are big endian, as in Java."""


def _strict_charset(name: str, known: str) -> tuple[Encode, Decode]:
    def encode(text: str) -> bytes:
        mark = _MARKED["utf-16"][0] if known == "utf-16" and text else b""
        try:
            return mark + text.encode(f"{known}-be" if known in _MARKED else known)
        except UnicodeEncodeError as e:
            found = f"U+{ord(e.object[e.start]):04X}"
            raise DataError(f"The charset {name} has no character {found}, which is at position {e.start} of the text") from e

    def decode(data: bytes) -> str:
        try:
            if known not in _MARKED:
                return data.decode(known)
            big, little = _MARKED[known]
            if data.startswith(little):
                return data[len(little) :].decode(f"{known}-le")
            return data.removeprefix(big).decode(f"{known}-be")
        except UnicodeDecodeError as e:
            raise DataError(f"The bytes are no text in the charset {name}, from position {e.start} on: {e.reason}") from e

    return encode, decode

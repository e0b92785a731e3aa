"""Encodes and decodes text with Java's charsets: malformed or unmappable input is replaced like in Java."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from connect.errors import ConfigError, DataError

Encode = Callable[[str], bytes]
Decode = Callable[[bytes], str]
REPLACE = "connect.java-replace"
REPLACE_UTF16 = "connect.java-replace-utf-16"


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """Replaces malformed UTF-8. Java counts an encoded surrogate (ED A0..BF xx) as one malformed sequence, Python as two or
    three."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, end = error.object, error.end
    if data[error.start] == 0xED and error.start + 1 < len(data) and 0xA0 <= data[error.start + 1] <= 0xBF:
        end = error.start + 2
        if end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
    return "\ufffd", end


def _replace_malformed_utf16(error: UnicodeError) -> tuple[str, int]:
    """Replaces malformed UTF-16. Java counts a high surrogate and the unit after it as one malformed sequence, and also a
    truncated end."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    is_cut = error.reason in ("truncated data", "unexpected end of data")
    return "\ufffd", len(error.object) if is_cut else error.start + (4 if error.reason == "illegal UTF-16 surrogate" else 2)


codecs.register_error(REPLACE, _replace_malformed)
codecs.register_error(REPLACE_UTF16, _replace_malformed_utf16)


def decode_utf8(data: bytes) -> str:
    """``new String(data, UTF_8)``."""
    return data.decode("utf-8", REPLACE)


_UTF16 = ("utf-16-be", "utf-16-le")
_UTF32 = ("utf-32-be", "utf-32-le")
_HALF = re.compile("[\ud800-\udfff]")
_NO_CHARSETS = frozenset(
    ("charmap", "idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7", "utf-8-sig")
)
"""Python's text encodings that Java does not have; most of them fail on some text."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.:_-]*")
_NAMES_OF_PYTHON = (
    (re.compile(r"(?:x-)?ibm-?0*(\d+)"), r"cp\1"),
    (re.compile(r"8859_(\d+)"), r"iso8859-\1"),
    (re.compile(r"x-(utf-?(?:16|32).*|sjis|windows-949|windows-950|iso-8859-11|johab|mac.*)"), r"\1"),
)
_JAVA_NAMES = {
    "ansi-1251": "cp1251", "ascii7": "ascii", "cswindows31j": "cp932", "default": "ascii", "koi8": "koi8-r",
    "latin-9": "iso8859-15", "latin0": "iso8859-15", "maccentraleurope": "mac-latin2", "macroman": "mac-roman",
    "ms874": "cp874", "sjis": "shift_jis", "unicode": "utf-16", "unicode-1-1-utf-8": "utf-8", "unicodebig": "utf-16",
    "windows-31j": "cp932", "windows-874": "cp874", "windows-932": "cp932", "windows-936": "gbk", "windows-949": "cp949",
    "windows-950": "cp950", "windows949": "cp949", "x-euc-cn": "gb2312", "x-euc-jp": "euc_jp", "x-eucjp": "euc_jp",
    "x-windows-874": "cp874",
}  # fmt: skip
"""Java's names that Python does not know, in lower case."""


def _encode_wide(text: str, known: str) -> bytes:
    """Encodes in UTF-16 or UTF-32, where Java replaces an unpaired surrogate by U+FFFD; in other charsets, by ``?``."""
    try:
        return text.encode(known)
    except UnicodeEncodeError:
        return _HALF.sub("\ufffd", text).encode(known)


def _encode_utf16(text: str) -> bytes:
    return b"\xfe\xff" + _encode_wide(text, "utf-16-be") if text else b""


def _decode_utf16(data: bytes) -> str:
    if data[:2] == b"\xff\xfe":
        return data[2:].decode("utf-16-le", REPLACE_UTF16)
    return data[2 if data[:2] == b"\xfe\xff" else 0 :].decode("utf-16-be", REPLACE_UTF16)


def _decode_utf32(data: bytes) -> str:
    if data[:4] == b"\xff\xfe\x00\x00":
        return data[4:].decode("utf-32-le", "replace")
    return data[4 if data[:4] == b"\x00\x00\xfe\xff" else 0 :].decode("utf-32-be", "replace")


def _codec(name: str) -> str:
    """Returns Python's name of the charset. Raises LookupError or ValueError."""
    if not _NAME.fullmatch(name):
        raise LookupError(f"{name!r} is not a charset name")
    try:
        found = codecs.lookup(name)
    except LookupError:
        known = name.lower()
        for pattern, replacement in _NAMES_OF_PYTHON:
            known = pattern.sub(replacement, known) if pattern.fullmatch(known) else known
        found = codecs.lookup(_JAVA_NAMES.get(known, known))
    "".encode(found.name)  # rejects Python's codecs that are not text encodings, such as hex
    if found.name.replace("_", "-") in _NO_CHARSETS:
        raise LookupError(f"{name} is not a charset of Java")
    return found.name


def charset(name: str, *, strict: bool = False) -> tuple[Encode, Decode]:
    """Returns the functions that encode and decode a charset, by any name that Java or Python knows. Raises ConfigError for one
    that Python lacks.

    Strict functions raise DataError where the others replace.
    """
    try:
        known = _codec(name)
    except (LookupError, ValueError) as e:
        raise ConfigError(f"Unsupported encoding {name}", key="converter.encoding") from e
    if strict:
        return _strict_charset(name, known)
    if known == "utf-8":
        return (lambda text: text.encode("utf-8", "replace")), decode_utf8
    if known == "utf-16":
        return _encode_utf16, _decode_utf16
    if known == "utf-32":
        return (lambda text: _encode_wide(text, "utf-32-be")), _decode_utf32
    if known in _UTF16:
        return (lambda text: _encode_wide(text, known)), (lambda data: data.decode(known, REPLACE_UTF16))
    if known in _UTF32:
        mark = _MARKED["utf-32"][known == "utf-32-le"]
        return (lambda text: _encode_wide(text, known)), (lambda data: data.removeprefix(mark).decode(known, "replace"))
    return (lambda text: text.encode(known, "replace")), (lambda data: data.decode(known, "replace"))


_MARKED = {"utf-16": (b"\xfe\xff", b"\xff\xfe"), "utf-32": (b"\x00\x00\xfe\xff", b"\xff\xfe\x00\x00")}
"""Byte order marks (big-endian, little-endian) of the charsets that may have one. The default is big-endian, as in Java."""


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

"""Sets of code points: the character classes of Java regular expressions.

Java's classes nest, have unions and intersections, and know properties that Python's ``re`` does not. As sets of ranges, all of
them become plain Python classes.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import groupby

LAST = sys.maxunicode
Ranges = tuple[tuple[int, int], ...]


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Returns the ranges sorted and merged."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def of_text(text: str) -> Ranges:
    return ranges_of((ord(c), ord(c)) for c in text)


def union(one: Ranges, other: Ranges) -> Ranges:
    return ranges_of((*one, *other))


def complement(ranges: Ranges) -> Ranges:
    result, start = [], 0
    for low, high in ranges:
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        result.append((start, LAST))
    return tuple(result)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    return complement(union(complement(one), complement(other)))


def fold_case(ranges: Ranges, unicode_case: bool) -> Ranges:
    """Adds the other case of each letter; only of ASCII letters unless ``unicode_case``."""
    more: list[tuple[int, int]] = []
    for low, high in ranges:
        for point in range(low, min(high, 0x7F) + 1):
            swapped = ord(chr(point).swapcase())
            more.append((swapped, swapped))
        if unicode_case and high > 0x7F and high - low < 0x3000:
            more += [(ord(c), ord(c)) for p in range(low, high + 1) for c in chr(p).swapcase() if len(chr(p).swapcase()) == 1]
    return ranges_of((*ranges, *more))


def to_python(ranges: Ranges) -> str:
    """Returns a Python pattern that matches one character of the set."""
    if not ranges:
        return r"(?!)"
    return "[" + "".join(_escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}" for low, high in ranges) + "]"


def _escaped(point: int) -> str:
    char = chr(point)
    return char if char.isascii() and char.isalnum() else f"\\U{point:08x}"


@lru_cache(maxsize=64)
def matching(name: str, holds: Callable[[str], bool]) -> Ranges:
    """Returns every code point that satisfies the predicate. ``name`` distinguishes predicates in the cache."""
    result: list[tuple[int, int]] = []
    for category, low, high in _categories():
        if category in _ALIKE:
            if holds(chr(low)):
                result.append((low, high))
        else:
            result += [(point, point) for point in range(low, high + 1) if holds(chr(point))]
    return ranges_of(result)


_ALIKE = ("Cn", "Co", "Cs")
"""Unassigned, private, and surrogate code points: seven of eight. Without names and properties, each is like the next."""


@cache
def _categories() -> list[tuple[str, int, int]]:
    """Returns the runs of code points of one category: category, first, last."""
    found, low = [], 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(LAST + 1)))):
        high = low + len(list(run)) - 1
        found.append((category, low, high))
        low = high + 1
    return found


DIGIT = of_text("0123456789")
SPACE = of_text(" \t\n\v\f\r")
WORD = ranges_of([(48, 57), (65, 90), (95, 95), (97, 122)])
HORIZONTAL_SPACE = ranges_of(
    [(9, 9), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F),
     (0x3000, 0x3000)]
)  # fmt: skip
VERTICAL_SPACE = ranges_of([(0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029)])
LINE_TERMINATORS = of_text("\n\r\x85\u2028\u2029")

_POSIX: dict[str, Ranges] = {
    "Lower": ((97, 122),),
    "Upper": ((65, 90),),
    "ASCII": ((0, 127),),
    "Alpha": ((65, 90), (97, 122)),
    "Digit": DIGIT,
    "Alnum": ((48, 57), (65, 90), (97, 122)),
    "Punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "Graph": ((33, 126),),
    "Print": ((32, 126),),
    "Blank": ((9, 9), (32, 32)),
    "Cntrl": ((0, 31), (127, 127)),
    "XDigit": ((48, 57), (65, 70), (97, 102)),
    "Space": SPACE,
    "all": ((0, LAST),),
    "L1": ((0, 255),),
    "any": ((0, LAST),),
}
_PREDICATES: dict[str, Callable[[str], bool]] = {
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaTitleCase": lambda c: unicodedata.category(c) == "Lt",
    "javaDigit": str.isdecimal,
    "javaLetter": str.isalpha,
    "javaLetterOrDigit": lambda c: c.isalpha() or c.isdecimal(),
    "javaAlphabetic": lambda c: c.isalpha() or unicodedata.category(c) == "Nl",
    "javaWhitespace": lambda c: c.isspace() and c not in "\x85\xa0\u2007\u202f",
    "javaSpaceChar": lambda c: unicodedata.category(c)[0] == "Z",
    "javaISOControl": lambda c: unicodedata.category(c) == "Cc",
    "javaMirrored": lambda c: unicodedata.mirrored(c) == 1,
    "javaDefined": lambda c: unicodedata.category(c) != "Cn",
}
_BINARY: dict[str, Callable[[str], bool]] = {
    "ALPHABETIC": _PREDICATES["javaAlphabetic"],
    "LETTER": str.isalpha,
    "LOWERCASE": str.islower,
    "UPPERCASE": str.isupper,
    "TITLECASE": _PREDICATES["javaTitleCase"],
    "DIGIT": str.isdecimal,
    "WHITE_SPACE": str.isspace,
    "WHITESPACE": str.isspace,
    "PUNCTUATION": lambda c: unicodedata.category(c)[0] == "P",
    "CONTROL": _PREDICATES["javaISOControl"],
    "ASSIGNED": _PREDICATES["javaDefined"],
    "HEX_DIGIT": lambda c: c in "0123456789abcdefABCDEF",
    "IDEOGRAPHIC": lambda c: unicodedata.name(c, "").startswith("CJK UNIFIED IDEOGRAPH"),
}
_SCRIPTS = (
    "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "DEVANAGARI", "BENGALI", "THAI", "GEORGIAN", "HANGUL",
    "HIRAGANA", "KATAKANA", "ETHIOPIC", "TAMIL", "TELUGU", "KHMER", "MONGOLIAN", "TIBETAN", "LAO", "GUJARATI", "KANNADA",
)  # fmt: skip
_SCRIPT_CODES = {
    "LATN": "LATIN", "GREK": "GREEK", "CYRL": "CYRILLIC", "ARMN": "ARMENIAN", "HEBR": "HEBREW", "ARAB": "ARABIC",
    "DEVA": "DEVANAGARI", "BENG": "BENGALI", "GEOR": "GEORGIAN", "HANG": "HANGUL", "HIRA": "HIRAGANA", "KANA": "KATAKANA",
    "ETHI": "ETHIOPIC", "TAML": "TAMIL", "TELU": "TELUGU", "KHMR": "KHMER", "MONG": "MONGOLIAN", "TIBT": "TIBETAN",
    "LAOO": "LAO", "GUJR": "GUJARATI", "KNDA": "KANNADA", "HANI": "HAN",
}  # fmt: skip
"""ISO 15924 codes, which Java accepts as names too."""
_BLOCKS: dict[str, tuple[int, int]] = {
    "BASICLATIN": (0, 0x7F), "LATIN1SUPPLEMENT": (0x80, 0xFF), "LATINEXTENDEDA": (0x100, 0x17F), "LATINEXTENDEDB": (0x180, 0x24F),
    "GREEK": (0x370, 0x3FF), "GREEKANDCOPTIC": (0x370, 0x3FF), "CYRILLIC": (0x400, 0x4FF), "HEBREW": (0x590, 0x5FF),
    "ARABIC": (0x600, 0x6FF), "THAI": (0xE00, 0xE7F), "GENERALPUNCTUATION": (0x2000, 0x206F), "ARROWS": (0x2190, 0x21FF),
    "HIRAGANA": (0x3040, 0x309F), "KATAKANA": (0x30A0, 0x30FF), "CJKUNIFIEDIDEOGRAPHS": (0x4E00, 0x9FFF),
    "HANGULSYLLABLES": (0xAC00, 0xD7AF),
}  # fmt: skip
_CATEGORIES = {
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "LC", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf",
    "Co", "Cs", "Cn", "P", "Pd", "Ps", "Pe", "Pc", "Po", "Pi", "Pf", "S", "Sm", "Sc", "Sk", "So", "LD",
}  # fmt: skip


def property_named(name: str) -> Ranges | None:
    """Returns the set that ``\\p{name}`` means in Java; None for an unknown name."""
    key, equals, value = name.partition("=")
    if equals:
        match key.lower():
            case "sc" | "script":
                return _script(value)
            case "blk" | "block":
                return _block(value)
            case "gc" | "general_category":
                return _category(value)
        return None
    if name in _POSIX:
        return ranges_of(_POSIX[name])
    if name in _PREDICATES:
        return matching(name, _PREDICATES[name])
    if name.startswith("In"):
        return _block(name[2:])
    if name.startswith("Is"):
        rest = name[2:]
        binary = _BINARY.get(rest.upper())
        return matching(rest.upper(), binary) if binary is not None else _category(rest) or _script(rest)
    return _category(name)


def _category(name: str) -> Ranges | None:
    if name not in _CATEGORIES:
        return None
    if name == "LC":
        return matching(name, lambda c: unicodedata.category(c) in ("Lu", "Ll", "Lt"))
    if name == "LD":
        return matching(name, lambda c: unicodedata.category(c)[0] == "L" or unicodedata.category(c) == "Nd")
    return matching("category " + name, lambda c: unicodedata.category(c).startswith(name))


def _script(name: str) -> Ranges | None:
    upper = _SCRIPT_CODES.get(name.upper(), name.upper())
    if upper == "HAN":
        return matching("script HAN", lambda c: unicodedata.name(c, "").startswith("CJK"))
    if upper not in _SCRIPTS:
        return None
    # Python has no table of scripts; derive the script from the names of characters.
    return matching("script " + upper, lambda c: unicodedata.name(c, "").startswith(upper + " "))


def _block(name: str) -> Ranges | None:
    block = _BLOCKS.get(name.upper().replace("_", "").replace(" ", "").replace("-", ""))
    return None if block is None else (block,)

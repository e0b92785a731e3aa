"""Generates random texts that match a regular expression.

An expression is parsed once. The possible lengths of the texts of each part are known (as bits of an integer), so that a text of
a chosen length is generated without trial and error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from connect.errors import SchemaError
from connect.java import code_points
from connect.java.code_points import Ranges
from connect.java.regex_classes import CharacterParser
from connect.java.regex_reader import Flags, PatternReader, RegexError

Sampler = Callable[[Random], str]
MAX_TEXT = 1000
"""Maximum length of a generated text, and maximum number of repetitions."""
_MAX_BOUND = 10_000
_MAX_GROUPS = 50
_MAX_ALPHABET = 4096
_PRINTABLE: Ranges = ((0x20, 0x7E),)
_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
_COUNT = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_FLAGS = Flags()


@dataclass(frozen=True, slots=True, eq=False)
class _Literal:
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class _Alphabet:
    characters: str


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    parts: tuple[_Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Alternatives:
    branches: tuple[_Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Repetition:
    part: _Part
    low: int
    high: int


_Part = _Literal | _Alphabet | _Sequence | _Alternatives | _Repetition


def text_sampler(pattern: str, shortest: int = 0, longest: int | None = None) -> Sampler:
    """Returns a function that generates texts which match the Java expression as a whole and have one of the allowed lengths.

    Each possible length is equally likely. Without ``longest``, ``*``, ``+``, and ``{n,}`` repeat up to 15 times, or 8 times more
    than they must. Raises SchemaError for an expression that is malformed, that is not regular (lookaround, back references), or
    that has no text of an allowed length.
    """
    try:
        root = _RegexParser(pattern, max(shortest + 8, longest or 0)).parse()
    except RegexError as e:
        raise SchemaError(f"regex {pattern!r} is invalid: {str(e).splitlines()[0]}") from e
    low, high = _bounds(root)
    if low > MAX_TEXT:
        raise SchemaError(f"regex {pattern!r} requires {low} characters, expected at most {MAX_TEXT}")
    if high > _MAX_BOUND:
        raise SchemaError(f"regex {pattern!r} allows {high} characters, expected at most {_MAX_BOUND}: nest fewer repetitions")
    limit = min(high, MAX_TEXT, MAX_TEXT if longest is None else longest)
    samplers = _RegexSampler(limit)
    lengths = [length for length in _bits(samplers.lengths(root)) if length >= shortest]
    if not lengths:
        allowed = f"{shortest} or more" if longest is None else f"{shortest} to {longest}"
        raise SchemaError(f"regex {pattern!r} matches texts of {low} to {high} characters, none of the allowed {allowed}")
    if len(lengths) == 1:
        return samplers.sampler(root, lengths[0])
    count = len(lengths)
    return lambda random: samplers.sampler(root, lengths[int(random.random() * count)])(random)


class _RegexParser:
    def __init__(self, pattern: str, repetitions: int) -> None:
        self._reader = PatternReader(pattern)
        self._characters = CharacterParser(self._reader)
        self._repetitions = repetitions

    def parse(self) -> _Part:
        text = self._reader.text
        if text.startswith("^"):
            self._reader.at = 1
        root = self._alternatives(0)
        if self._reader.peek() == "$" and self._reader.at == len(text) - 1:
            self._reader.at += 1
        if self._reader.at < len(text):
            raise self._reader.error(f"Unexpected {self._reader.peek()!r}")
        return root

    def _alternatives(self, depth: int) -> _Part:
        if depth > _MAX_GROUPS:
            raise self._reader.error("Groups are nested too deeply")
        branches = [self._sequence(depth)]
        while self._reader.peek() == "|":
            self._reader.at += 1
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else _Alternatives(tuple(branches))

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._reader.peek() and self._reader.peek() not in "|)$":
            part = self._repeated(self._atom(depth))
            before = parts[-1] if parts else None
            if isinstance(part, _Literal) and isinstance(before, _Literal):
                parts[-1] = _Literal(before.text + part.text)
            else:
                parts.append(part)
        if not parts:
            return _Literal("")
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _atom(self, depth: int) -> _Part:
        char = self._reader.take()
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return self._alphabet(self._characters.parse(_FLAGS))
            case ".":
                return self._alphabet(code_points.complement(code_points.LINE_TERMINATORS))
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise self._reader.error(f"Dangling {char!r}")
            case "^":
                raise self._reader.error("'^' is allowed at the beginning only")
        return _Literal(char)

    def _group(self, depth: int) -> _Part:
        if self._reader.peek() == "?":
            head = re.compile(r"\?(?::|<[A-Za-z][A-Za-z0-9]*>)").match(self._reader.text, self._reader.at)
            if head is None:
                raise self._reader.error("Lookaround and flags are not supported, expected (...), (?:...), or (?<name>...)")
            self._reader.at = head.end()
        body = self._alternatives(depth + 1)
        if self._reader.peek() != ")":
            raise self._reader.error("Unclosed group")
        self._reader.at += 1
        return body

    def _escape(self) -> _Part:
        char = self._reader.take()
        if char.isdigit() and char != "0":
            raise self._reader.error("Back references are not supported")
        ranges = self._characters.escaped_set(char, _FLAGS)
        return _Literal(self._characters.escaped_character(char)) if ranges is None else self._alphabet(ranges)

    def _alphabet(self, ranges: Ranges) -> _Part:
        """Printable ASCII characters of the set if it has any, otherwise its first characters."""
        ranges = code_points.intersection(ranges, _PRINTABLE) or code_points.intersection(
            ranges, code_points.complement(_SURROGATES)
        )
        points = (point for low, high in ranges for point in range(low, high + 1))
        characters = "".join(chr(point) for point, _ in zip(points, range(_MAX_ALPHABET), strict=False))
        if not characters:
            raise self._reader.error("The character class is empty")
        return _Literal(characters) if len(characters) == 1 else _Alphabet(characters)

    def _repeated(self, part: _Part) -> _Part:
        low, high = 1, 1
        match self._reader.peek():
            case "*":
                low, high = 0, self._unlimited(0)
            case "+":
                low, high = 1, self._unlimited(1)
            case "?":
                low, high = 0, 1
            case "{":
                found = _COUNT.match(self._reader.text, self._reader.at)
                if found is None:
                    raise self._reader.error("Illegal repetition")
                low = int(found[1])
                high = low if found[2] is None else int(found[3]) if found[3] else self._unlimited(low)
                if high < low or high > MAX_TEXT:
                    raise self._reader.error(f"Illegal repetition range, expected at most {MAX_TEXT}")
                self._reader.at = found.end() - 1
            case _:
                return part
        self._reader.at += 1
        # A reluctant quantifier matches the same texts. A possessive one does not.
        if self._reader.peek() == "?":
            self._reader.at += 1
        elif self._reader.peek() == "+":
            raise self._reader.error("Possessive quantifiers are not supported")
        return _Repetition(part, low, high)

    def _unlimited(self, low: int) -> int:
        return min(max(low + 8, 15, self._repetitions), max(low, MAX_TEXT))


def _bounds(part: _Part) -> tuple[int, int]:
    """Returns the shortest and the longest length of the part's texts."""
    match part:
        case _Literal(text):
            return len(text), len(text)
        case _Alphabet():
            return 1, 1
        case _Sequence(parts):
            bounds = [_bounds(one) for one in parts]
            return sum(low for low, _ in bounds), sum(high for _, high in bounds)
        case _Alternatives(branches):
            bounds = [_bounds(one) for one in branches]
            return min(low for low, _ in bounds), max(high for _, high in bounds)
        case _Repetition(inner, low, high):
            shortest, longest = _bounds(inner)
            return shortest * low, longest * high


class _RegexSampler:
    """Builds the functions that generate texts of one part and length, and keeps them."""

    def __init__(self, longest: int) -> None:
        self._mask = (1 << (longest + 1)) - 1
        self._lengths: dict[_Part, int] = {}
        self._samplers: dict[tuple[_Part, int], Sampler] = {}

    def lengths(self, part: _Part) -> int:
        """Returns the lengths of the part's texts, up to the longest allowed one: bit n is set for length n."""
        found = self._lengths.get(part)
        if found is None:
            found = self._lengths[part] = self._find_lengths(part) & self._mask
        return found

    def _find_lengths(self, part: _Part) -> int:
        match part:
            case _Literal(text):
                return 1 << len(text)
            case _Alphabet():
                return 2
            case _Sequence(parts):
                return self._suffixes(parts)[0]
            case _Alternatives(branches):
                result = 0
                for branch in branches:
                    result |= self.lengths(branch)
                return result
            case _Repetition(_, low, _):
                result = 0
                for sums in self._repetitions(part)[low:]:
                    result |= sums
                return result

    def _suffixes(self, parts: Sequence[_Part]) -> list[int]:
        """Returns for each index the lengths of the parts from there to the end."""
        result = [1]
        for part in reversed(parts):
            result.append(self._sums(result[-1], self.lengths(part)))
        return result[::-1]

    def _repetitions(self, part: _Repetition) -> list[int]:
        """Returns for each number of repetitions the possible lengths; none for numbers whose texts are all too long."""
        result = [1]
        inner = self.lengths(part.part)
        while len(result) <= part.high and result[-1]:
            result.append(self._sums(result[-1], inner))
        return result

    def _sums(self, one: int, other: int) -> int:
        result = 0
        for length in _bits(other):
            result |= one << length
        return result & self._mask

    def sampler(self, part: _Part, length: int) -> Sampler:
        """Returns the function that generates texts of that part and length; the length must be possible."""
        key = part, length
        found = self._samplers.get(key)
        if found is None:
            found = self._samplers[key] = self._build(part, length)
        return found

    def _build(self, part: _Part, length: int) -> Sampler:
        match part:
            case _Literal(text):
                return lambda random: text
            case _Alphabet(characters):
                size = len(characters)
                return lambda random: characters[int(random.random() * size)]
            case _Sequence(parts):
                return self._split(parts, self._suffixes(parts), length)
            case _Alternatives(branches):
                return _any_of([self.sampler(one, length) for one in branches if self.lengths(one) >> length & 1])
            case _Repetition(inner, low, _):
                sums = self._repetitions(part)
                counts = [count for count in range(low, len(sums)) if sums[count] >> length & 1]
                return _any_of([self._repeat(inner, count, sums, length) for count in counts])

    def _repeat(self, part: _Part, count: int, sums: list[int], length: int) -> Sampler:
        if isinstance(part, _Alphabet):
            return lambda random: "".join(random.choices(part.characters, k=count))
        return self._split([part] * count, sums[count::-1], length)

    def _split(self, parts: Sequence[_Part], suffixes: list[int], length: int) -> Sampler:
        """Divides the length among the parts. ``suffixes`` are the possible lengths from each part to the end."""
        lengths = [self.lengths(part) for part in parts]
        if all(one.bit_count() == 1 for one in lengths):
            fixed = [self.sampler(part, one.bit_length() - 1) for part, one in zip(parts, lengths, strict=True)]
            return lambda random: "".join([sampler(random) for sampler in fixed])
        choices: dict[tuple[int, int], list[int]] = {}

        def sample(random: Random) -> str:
            texts, left = [], length
            for index, part in enumerate(parts):
                found = choices.get((index, left))
                if found is None:
                    after = suffixes[index + 1]
                    found = [one for one in _bits(lengths[index]) if one <= left and after >> (left - one) & 1]
                    choices[index, left] = found
                own = found[int(random.random() * len(found))]
                texts.append(self.sampler(part, own)(random))
                left -= own
            return "".join(texts)

        return sample


def _any_of(samplers: list[Sampler]) -> Sampler:
    if len(samplers) == 1:
        return samplers[0]
    count = len(samplers)
    return lambda random: samplers[int(random.random() * count)](random)


def _bits(bits: int) -> Iterator[int]:
    """Yields the positions of the bits that are set, in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest

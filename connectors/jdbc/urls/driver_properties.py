"""Driver properties on their way to a driver's arguments: each is taken once, what is left has no counterpart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect.config.url_secrets import is_secret_name
from connect.errors import ConfigError
from connect.suggestions import nearest

_YES = frozenset({"true", "1", "yes", "on", ""})
_NO = frozenset({"false", "0", "no", "off"})


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    value: str
    given: bool
    """As a key of its own; else in the URL."""


class Properties:
    """Names count without case. A property that is given as a key of its own wins over the URL's.

    Messages never show a value: what is taken for one may be the rest of a password that was not escaped.
    """

    def __init__(self, of_url: Iterable[tuple[str, str]], given: Mapping[str, str]) -> None:
        pairs = list(of_url)
        self._order = [name.lower() for name, _ in pairs]
        self._left = {name.lower(): _Property(name, value, False) for name, value in pairs}
        self._left.update({name.lower(): _Property(name, value, True) for name, value in given.items()})
        self._asked: dict[str, str] = {}
        self._notices: list[str] = []

    def text(self, *names: str) -> str | None:
        """The value of the property, which may have several names: one that is not the URL's first, then the order counts."""
        found = self._take(names)
        return None if found is None else found.value

    def flag(self, *names: str) -> bool | None:
        """The same for true and false; without a value it is true."""
        found = self._take(names)
        if found is None:
            return None
        word = found.value.strip().lower()
        if word in _YES or word in _NO:
            return word in _YES
        raise self._wrong(found, "neither true nor false")

    def number(self, *names: str) -> float | None:
        """The same for a number of zero or more."""
        found = self._take(names)
        if found is None:
            return None
        try:
            value = float(found.value)
        except ValueError:
            raise self._wrong(found, "not a number") from None
        if not 0 <= value < float("inf"):
            raise self._wrong(found, "below zero or too large")
        return int(value) if value.is_integer() else value

    def choice(self, choices: Mapping[str, str], *names: str) -> str | None:
        """The same for one of several words, case and ``_`` apart; returns what the word stands for."""
        found = self._take(names)
        if found is None:
            return None
        word = found.value.strip().lower().replace("_", "-")
        if word in choices:
            return choices[word]
        raise self._wrong(found, f"none of {', '.join(choices)}")

    def leave_out(self, reason: str, *names: str) -> None:
        """Takes the properties and, where there is one, says why it has no effect: ``reason`` follows its name."""
        for name in names:
            found = self._take((name,))
            if found is not None:
                self.notice(f"{found.name} {reason}")

    def notice(self, text: str) -> None:
        if text not in self._notices:
            self._notices.append(text)

    def _take(self, names: tuple[str, ...]) -> _Property | None:
        self._asked.update({name.lower(): name for name in names})
        found = [entry for name in names if (entry := self._left.pop(name.lower(), None)) is not None]
        return min(found, key=lambda entry: not entry.given, default=None)

    def _wrong(self, found: _Property, what: str) -> ConfigError:
        name = self._asked[found.name.lower()]
        return ConfigError(f"the property {name} is {what}", key=found.name if found.given else None)

    def rest(self) -> dict[str, str]:
        """All that is left, taken."""
        left = {entry.name: entry.value for entry in self._left.values()}
        self._left.clear()
        return left

    def finish(self, driver: str, meaningless: Sequence[str] = ()) -> tuple[str, ...]:
        """The notices, with one for all that is left. ``meaningless`` names properties that exist, but not for ``driver``."""
        foreign = {name.lower(): name for name in meaningless}
        known = {**self._asked, **foreign}
        doubtful = self._doubtful(known)
        for lower, entry in self._left.items():
            if lower in foreign:
                self.notice(f"{entry.name} means nothing to {driver} and is left out")
            elif lower in doubtful and not entry.given:
                # It may be a part of the password, so it is not named.
                self.notice("what follows a password in the URL is no property: if a & or ; belongs to the password, escape it")
            else:
                near = nearest(lower, known, cutoff=0.75)
                hint = f" (did you mean {known[near]}?)" if near else ""
                self.notice(f"{entry.name} is not known to {driver} and is left out{hint}")
        self._left.clear()
        return tuple(self._notices)

    def _doubtful(self, known: Mapping[str, str]) -> set[str]:
        """Unknown names that follow a secret in the URL, up to the next known one."""
        doubtful: set[str] = set()
        after_secret = False
        for name in self._order:
            if is_secret_name(name):
                after_secret = True
            elif name in known:
                after_secret = False
            elif after_secret:
                doubtful.add(name)
        return doubtful

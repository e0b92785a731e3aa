"""Maps JDBC driver properties to arguments of Python drivers: each is taken once; the rest has no equivalent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect.config.url_secrets import is_secret_name
from connect.errors import ConfigError
from connect.suggestions import nearest

_YES = frozenset({"true", "1", "yes", "on", ""})
_NO = frozenset({"false", "0", "no", "off"})


@dataclass(frozen=True, slots=True)
class DriverProperty:
    name: str
    value: str
    given: bool
    """Set by a config key of its own instead of in the URL."""


class DriverProperties:
    """Property names ignore case. A property set by a key of its own takes precedence over the URL's.

    Messages never show a value: it may be part of a password that was not escaped.
    """

    def __init__(self, of_url: Iterable[tuple[str, str]], given: Mapping[str, str]) -> None:
        pairs = list(of_url)
        self._order = [name.lower() for name, _ in pairs]
        self._left = {name.lower(): DriverProperty(name, value, False) for name, value in pairs}
        self._left.update({name.lower(): DriverProperty(name, value, True) for name, value in given.items()})
        self._asked: dict[str, str] = {}
        self._notices: list[str] = []

    def text(self, *names: str) -> str | None:
        """Takes a property that may have several names: those set by a key first, then in the given order."""
        found = self._take(names)
        return None if found is None else found.value

    def flag(self, *names: str) -> bool | None:
        """Takes a boolean; without a value it is true."""
        found = self._take(names)
        if found is None:
            return None
        word = found.value.strip().lower()
        if word in _YES or word in _NO:
            return word in _YES
        raise self._wrong(found, "neither true nor false")

    def number(self, *names: str) -> float | None:
        """Takes a number of zero or more."""
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
        """Takes one of several words, ignoring case and ``_``; returns the word's meaning."""
        found = self._take(names)
        if found is None:
            return None
        word = found.value.strip().lower().replace("_", "-")
        if word in choices:
            return choices[word]
        raise self._wrong(found, f"none of {', '.join(choices)}")

    def leave_out(self, reason: str, *names: str) -> None:
        """Takes properties without effect and adds a notice for each: its name, then ``reason``."""
        for name in names:
            found = self._take((name,))
            if found is not None:
                self.notice(f"{found.name} {reason}")

    def notice(self, text: str) -> None:
        if text not in self._notices:
            self._notices.append(text)

    def _take(self, names: tuple[str, ...]) -> DriverProperty | None:
        self._asked.update({name.lower(): name for name in names})
        found = [entry for name in names if (entry := self._left.pop(name.lower(), None)) is not None]
        return min(found, key=lambda entry: not entry.given, default=None)

    def _wrong(self, found: DriverProperty, what: str) -> ConfigError:
        name = self._asked[found.name.lower()]
        return ConfigError(f"the property {name} is {what}", key=found.name if found.given else None)

    def rest(self) -> dict[str, str]:
        """Takes all remaining properties."""
        left = {entry.name: entry.value for entry in self._left.values()}
        self._left.clear()
        return left

    def finish(self, driver: str, meaningless: Sequence[str] = ()) -> tuple[str, ...]:
        """Returns the notices, with one for each remaining property. ``meaningless`` names known properties that ``driver``
        lacks."""
        foreign = {name.lower(): name for name in meaningless}
        known = {**self._asked, **foreign}
        doubtful = self._doubtful(known)
        for lower, entry in self._left.items():
            if lower in foreign:
                self.notice(f"{entry.name} has no effect with {driver} and is ignored")
            elif lower in doubtful and not entry.given:
                # It may be part of the password, so the message does not name it.
                self.notice(
                    "the text after a password in the URL is not a property: if a & or ; belongs to the password, escape it"
                )
            else:
                near = nearest(lower, known, cutoff=0.75)
                hint = f" (did you mean {known[near]}?)" if near else ""
                self.notice(f"{entry.name} is not known to {driver} and is ignored{hint}")
        self._left.clear()
        return tuple(self._notices)

    def _doubtful(self, known: Mapping[str, str]) -> set[str]:
        """Returns unknown names that follow a secret in the URL, up to the next known one."""
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

"""Which plugins configurations may name: the worker keys ``plugin.allow`` and ``plugin.deny``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

_ALL = ("*",)


@dataclass(frozen=True, slots=True)
class PluginRules:
    """Patterns (``*``, ``?``, ``[...]``) for any of a plugin's names: Java name, Python path, or alias."""

    allow: tuple[str, ...] = _ALL
    deny: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether every plugin is allowed."""
        return self.allow == _ALL and not self.deny

    def allows(self, names: Iterable[str]) -> bool:
        """Returns whether a plugin with these names is allowed: one of them matches ``allow``, and none matches ``deny``."""
        known = list(names)
        return _any_matches(self.allow, known) and not _any_matches(self.deny, known)

    def allows_path(self, path: str) -> bool:
        """Returns whether a Python path that no distribution registers is allowed.

        It may be another path of a plugin that is denied, so that the pattern ``*`` is not enough unless every plugin is allowed.
        """
        if self.is_open:
            return True
        named = PluginRules(tuple(pattern for pattern in self.allow if pattern != "*"), self.deny)
        return named.allows((path, path.replace(":", ".")))


def _any_matches(patterns: Iterable[str], names: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


_current = PluginRules()


def install_plugin_rules(rules: PluginRules) -> None:
    """Sets the rules of this process. Called once, before connectors run in it."""
    global _current
    _current = rules


def plugin_rules() -> PluginRules:
    """Returns the rules of this process, for plugins that a connector looks up itself: those of its worker, or without a worker
    rules that allow everything."""
    return _current

"""Checks aliases: keys against the lists of transforms, predicates, and groups, and predicates against their users."""

from __future__ import annotations

from collections.abc import Iterator

from connect.config.finding import Finding
from worker.lint import codes
from worker.lint.context import LISTS, LintContext
from worker.lint.provider_references import has_reference
from worker.lint.suggestions import did_you_mean
from worker.validation.plugin_index import PluginType

_FILTER = "org.apache.kafka.connect.transforms.Filter"
GROUPS = "topic.creation."
_DEFAULT_GROUP = "default"


def check_aliases(context: LintContext) -> Iterator[Finding]:
    """Yields findings about aliases."""
    for kind, list_key in LISTS.items():
        if has_reference(context.config.get(list_key)):
            continue
        if "" in context.aliases(kind):
            yield codes.EMPTY_ALIAS.finding(f"{list_key} has an empty entry: {context.config[list_key]!r}", list_key)
        yield from _undeclared(context, list_key, context.aliases(kind), list_key + ".")
    if context.kind is PluginType.SOURCE:
        declared = [*context.list_of(f"{GROUPS}groups"), _DEFAULT_GROUP]
        yield from _undeclared(context, f"{GROUPS}groups", declared, GROUPS)
    yield from _predicates(context)


def undeclared_alias(key: str, prefix: str, declared: list[str]) -> str | None:
    """Returns the alias of a key if it is not declared; None otherwise. Aliases may contain dots."""
    below = key.removeprefix(prefix)
    if not key.startswith(prefix) or any(below.startswith(f"{alias}.") for alias in declared if alias):
        return None
    alias, dot, _ = below.partition(".")
    return alias if dot else None


def _undeclared(context: LintContext, list_key: str, declared: list[str], prefix: str) -> Iterator[Finding]:
    found: dict[str, list[str]] = {}
    for key in context.config:
        alias = undeclared_alias(key, prefix, declared)
        if alias is not None and key not in context.tables:
            found.setdefault(alias, []).append(key)
    for alias, keys in found.items():
        its_keys = "its key has" if len(keys) == 1 else f"its {len(keys)} keys have"
        message = f"{alias} is not in {list_key}, so {its_keys} no effect: {', '.join(keys)}"
        yield codes.UNDECLARED_ALIAS.finding(message, keys[0], did_you_mean(alias, [one for one in declared if one]))


def _predicates(context: LintContext) -> Iterator[Finding]:
    if any(has_reference(context.config.get(list_key)) for list_key in LISTS.values()):
        return
    declared = [alias for alias in context.aliases(PluginType.PREDICATE) if alias]
    used = set()
    for alias in dict.fromkeys(context.aliases(PluginType.TRANSFORMATION)):
        key = f"transforms.{alias}.predicate"
        name = (context.config.get(key) or "").strip()
        if has_reference(name):
            return
        if name:
            used.add(name)
            if name not in declared:
                message = f"transforms.{alias} uses the predicate {name}, which is not in predicates"
                yield codes.UNDECLARED_PREDICATE.finding(message, key, did_you_mean(name, declared))
        elif _is_filter(context, alias):
            message = f"transforms.{alias} is a Filter without a predicate, so it drops every record"
            yield codes.FILTER_DROPS_ALL.finding(message, f"transforms.{alias}.type", f"Set transforms.{alias}.predicate.")
    for alias in dict.fromkeys(declared):
        if alias not in used:
            yield codes.UNUSED_PREDICATE.finding(f"No transform uses the predicate {alias}", f"predicates.{alias}.type")


def _is_filter(context: LintContext, alias: str) -> bool:
    name = (context.config.get(f"transforms.{alias}.type") or "").strip()
    found = context.plugin_index.find(name, [PluginType.TRANSFORMATION]) if name else None
    return found is not None and found.name == _FILTER

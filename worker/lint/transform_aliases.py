"""Aliases: lists of transforms and predicates against the keys below them, and predicates against those who use them."""

from __future__ import annotations

from collections.abc import Iterator

from connect.config.finding import Finding
from worker.lint import codes
from worker.lint.nearest import did_you_mean
from worker.lint.provider_references import has_reference
from worker.lint.subject import LISTS, Subject
from worker.validation.plugin_catalog import Kind

_FILTER = "org.apache.kafka.connect.transforms.Filter"
GROUPS = "topic.creation."
_DEFAULT_GROUP = "default"


def check_stages(subject: Subject) -> Iterator[Finding]:
    """Findings about aliases."""
    for kind, list_key in LISTS.items():
        if has_reference(subject.config.get(list_key)):
            continue
        if "" in subject.aliases(kind):
            yield codes.EMPTY_ALIAS.found(f"{list_key} has an empty entry: {subject.config[list_key]!r}", list_key)
        yield from _undeclared(subject, list_key, subject.aliases(kind), list_key + ".")
    if subject.kind is Kind.SOURCE:
        declared = [*subject.list_of(f"{GROUPS}groups"), _DEFAULT_GROUP]
        yield from _undeclared(subject, f"{GROUPS}groups", declared, GROUPS)
    yield from _predicates(subject)


def undeclared_alias(key: str, prefix: str, declared: list[str]) -> str | None:
    """The alias that a key is below, when it is none of those declared. Aliases may have dots in them."""
    below = key.removeprefix(prefix)
    if not key.startswith(prefix) or any(below.startswith(f"{alias}.") for alias in declared if alias):
        return None
    alias, dot, _ = below.partition(".")
    return alias if dot else None


def _undeclared(subject: Subject, list_key: str, declared: list[str], prefix: str) -> Iterator[Finding]:
    found: dict[str, list[str]] = {}
    for key in subject.config:
        alias = undeclared_alias(key, prefix, declared)
        if alias is not None and key not in subject.tables:
            found.setdefault(alias, []).append(key)
    for alias, keys in found.items():
        these = "this key is" if len(keys) == 1 else f"its {len(keys)} keys are"
        message = f"{alias} is not in {list_key}, so {these} not read: {', '.join(keys)}"
        yield codes.UNDECLARED_ALIAS.found(message, keys[0], did_you_mean(alias, [one for one in declared if one]))


def _predicates(subject: Subject) -> Iterator[Finding]:
    if any(has_reference(subject.config.get(list_key)) for list_key in LISTS.values()):
        return
    declared = [alias for alias in subject.aliases(Kind.PREDICATE) if alias]
    used = set()
    for alias in dict.fromkeys(subject.aliases(Kind.TRANSFORMATION)):
        key = f"transforms.{alias}.predicate"
        name = (subject.config.get(key) or "").strip()
        if has_reference(name):
            return
        if name:
            used.add(name)
            if name not in declared:
                message = f"transforms.{alias} uses the predicate {name}, which is not in predicates"
                yield codes.UNDECLARED_PREDICATE.found(message, key, did_you_mean(name, declared))
        elif _is_filter(subject, alias):
            message = f"transforms.{alias} is a Filter without a predicate: it drops every record"
            yield codes.FILTER_DROPS_ALL.found(message, f"transforms.{alias}.type", f"Set transforms.{alias}.predicate.")
    for alias in dict.fromkeys(declared):
        if alias not in used:
            yield codes.UNUSED_PREDICATE.found(f"No transform uses the predicate {alias}", f"predicates.{alias}.type")


def _is_filter(subject: Subject, alias: str) -> bool:
    name = (subject.config.get(f"transforms.{alias}.type") or "").strip()
    found = subject.catalogue.find(name, [Kind.TRANSFORMATION]) if name else None
    return found is not None and found.name == _FILTER

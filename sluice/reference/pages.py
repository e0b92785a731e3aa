"""Reference pages: every key of every component, from the components' own tables.

A component is a kind of worker, or whatever plugin discovery finds. What a page says comes from the ConfigDef that also parses
and validates, so it cannot say anything else; ``tests/unit/docs`` holds the files in ``docs/reference`` to it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey
from connect.converters.config import TYPE
from connect.errors import ConnectError, PluginNotFoundError
from connect.plugins import Kind, PluginDesc, Plugins
from connect.suggestions import nearest

log = logging.getLogger(__name__)

OWN_DISTRIBUTION = "sluice-connect"
MARK = "<!-- Made by `sluice docs --write docs/reference`: change the table in the code, not this page. -->"
INDEX = "README.md"
WORKER = "worker"
DISTRIBUTED_WORKER = "distributed-worker"
FRAMEWORK = "framework"
_ALIAS = "<name>"

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MARKUP = re.compile(r"([_*<\[\]`])")
_ESCAPED = r"\\\1"
_BESIDES = (
    "Besides these, a connector has the keys of its class, those below its [transformations and",
    "predicates](transforms-and-predicates.md), and those of converters that it names, as `value.converter.schemas.enable`.",
    "",
)
_FRAMEWORK_HEADS = {
    "source-connectors": (
        "The keys that the worker reads from the configuration of every source connector.",
        *_BESIDES,
        "`producer.override.*` and `admin.override.*` are settings of its Kafka clients, as far as the worker's policy allows.",
        "Topics are created as `topic.creation.default.*` and `topic.creation.<group>.*` say: `partitions`,",
        "`replication.factor`, any setting of topics, and for a group `include` and `exclude`.",
    ),
    "sink-connectors": (
        "The keys that the worker reads from the configuration of every sink connector.",
        *_BESIDES,
        "`consumer.override.*`, and with a dead letter queue `producer.override.*` and `admin.override.*`, are settings of its",
        "Kafka clients, as far as the worker's policy allows.",
    ),
    "transforms-and-predicates": (
        "`transforms` and `predicates` list names; below each name stand the class and its settings. These keys are there for",
        "every class; what else there is, the page of the class tells.",
    ),
}
_USED_AS = {
    Kind.CONNECTOR: ("connector.class", ""),
    Kind.CONVERTER: ("key.converter or value.converter", "key.converter. or value.converter."),
    Kind.HEADER_CONVERTER: ("header.converter", "header.converter."),
    Kind.TRANSFORMATION: ("transforms.<name>.type", "transforms.<name>."),
    Kind.PREDICATE: ("predicates.<name>.type", "predicates.<name>."),
    Kind.CONFIG_PROVIDER: ("config.providers.<name>.class", "config.providers.<name>.param."),
}


@dataclass(frozen=True, slots=True)
class Component:
    """Something with a table of keys. ``name`` is its page's, without ending."""

    name: str
    title: str
    kind: str
    names: tuple[str, ...]
    """All that a configuration may call it: Java names, aliases, Python path."""
    named_by: str
    """The key that names it, "" for the worker."""
    prefix: str
    """What its keys begin with in a configuration."""
    table: ConfigDef

    @property
    def page(self) -> str:
        return f"{self.name}.md"


def components(plugins: Plugins, *, distribution: str | None = OWN_DISTRIBUTION) -> list[Component]:
    """The workers and all plugins with a table, by kind and name; ``distribution`` None takes those of others too."""
    found: dict[str, list[PluginDesc]] = {}
    for desc in plugins.all():
        if distribution is None or desc.distribution == distribution:
            found.setdefault(desc.path, []).append(desc)
    made = [one for descs in found.values() if (one := _of_plugin(plugins, descs)) is not None]
    simple = [one.name for one in made]
    return [
        *worker_components(),
        *framework_components(),
        *sorted(
            (one if simple.count(one.name) == 1 else _with_long_name(one) for one in made), key=lambda one: (one.kind, one.name)
        ),
    ]


def worker_components() -> tuple[Component, Component]:
    """The keys of each kind of worker."""
    from worker.config.worker_config import distributed_config_def, standalone_config_def

    return (
        Component(WORKER, "Standalone worker", "worker", (), "", "", standalone_config_def()),
        Component(DISTRIBUTED_WORKER, "Distributed worker", "worker", (), "", "", distributed_config_def()),
    )


def framework_components() -> list[Component]:
    """The keys that connectors have whatever their class, and those of every transformation and predicate."""
    from worker.validation.extension_keys import own_keys
    from worker.validation.framework_keys import plain_def
    from worker.validation.plugin_catalog import Kind as ConnectorKind

    made = []
    for kind in (ConnectorKind.SOURCE, ConnectorKind.SINK):
        table = ConfigDef((*plain_def(kind).keys.values(), *own_keys(kind)))
        title = f"Every {kind.value} connector"
        made.append(Component(f"{kind.value}-connectors", title, FRAMEWORK, (), "", "", table))
    return [*made, Component("transforms-and-predicates", "Every transformation and predicate", FRAMEWORK, (), "", "", _stages())]


def _stages() -> ConfigDef:
    """What the worker reads below an alias, besides the keys of the class. Versions are the plugins' own: left out."""
    from worker.validation.discovered_plugins import DiscoveredCatalogue
    from worker.validation.plugin_catalog import Kind as StageKind
    from worker.validation.transform_keys import add_stage_keys

    config = {
        "transforms": _ALIAS,
        f"transforms.{_ALIAS}.type": "Filter",
        "predicates": _ALIAS,
        f"predicates.{_ALIAS}.type": "RecordIsTombstone",
    }
    table = ConfigDef()
    for kind in (StageKind.TRANSFORMATION, StageKind.PREDICATE):
        add_stage_keys(table, kind, config, DiscoveredCatalogue(Plugins.discover()))
    without_versions = [
        replace(key, default=None, validator=None) if key.name.endswith(".plugin.version") else key for key in table.keys.values()
    ]
    return ConfigDef(without_versions)


def find_component(name: str, plugins: Plugins) -> Component:
    """The component of a page's name, or of any name that a configuration may use. Else PluginNotFoundError, with the nearest."""
    for one in (*worker_components(), *framework_components()):
        if name == one.name:
            return one
    known = components(plugins, distribution=None)
    for one in known:
        if name == one.name or name in one.names:
            return one
    try:
        desc = _resolved(name, plugins)
    except PluginNotFoundError:
        words = {word for one in known for word in (one.name, *one.names)}
        near = nearest(name, sorted(words))
        hint = f"Did you mean {near}?" if near else f"There are: {', '.join(one.name for one in known)}."
        raise PluginNotFoundError(f"There is no component {name}. {hint}") from None
    for one in known:
        if desc.path in one.names:
            return one
    made = _of_plugin(plugins, [desc])
    if made is None:
        raise PluginNotFoundError(f"{name} has no table of keys")
    return made


def _resolved(name: str, plugins: Plugins) -> PluginDesc:
    try:
        return plugins.find(name)
    except PluginNotFoundError:
        if ":" not in name:
            raise
        return plugins.resolve(Kind.CONNECTOR, name)  # a connector that is only on the path


def _of_plugin(plugins: Plugins, descs: list[PluginDesc]) -> Component | None:
    """One component for a class, which may be of several kinds. None when it has no table."""
    first = descs[0]
    try:
        loaded: Any = plugins.load(first)
    except ConnectError as e:
        if first.distribution == OWN_DISTRIBUTION:
            raise
        log.warning("%s", e.message)  # somebody else's broken plugin must not hide the rest
        return None
    if not hasattr(loaded, "config_def"):
        return None
    table: ConfigDef = loaded().config_def()
    class_name = first.path.rpartition(":")[2]
    uses = [_USED_AS[desc.kind] for desc in descs]
    return Component(
        _kebab(class_name),
        class_name,
        " and ".join(_kind_of(desc) for desc in descs),
        (*dict.fromkeys(name for desc in descs for name in (*desc.java_names, *desc.aliases)), first.path),
        " or ".join(key for key, _ in uses),
        " or ".join(prefix for _, prefix in uses if prefix),
        table,
    )


def _kind_of(desc: PluginDesc) -> str:
    return f"{desc.type} connector" if desc.kind is Kind.CONNECTOR else desc.kind.name.lower().replace("_", " ")


def _with_long_name(component: Component) -> Component:
    path = component.names[-1].replace(":", ".").replace(".", "-")
    return Component(
        _kebab(path), component.title, component.kind, component.names, component.named_by, component.prefix, component.table
    )


def _kebab(class_name: str) -> str:
    return _CAMEL.sub("-", class_name.replace(".", "-")).lower()


# --- pages ------------------------------------------------------------------------------------------------------------------


def pages(plugins: Plugins) -> dict[str, str]:
    """Every file of ``docs/reference`` by its name: a page for each component, and the index."""
    found = components(plugins)
    return {INDEX: _index(found), **{one.page: page(one) for one in found}}


def page(component: Component, *, markdown: bool = True) -> str:
    """A component's page. Without ``markdown`` the same text for a terminal: no escapes, no mark."""
    lines = [f"# {component.title}", ""]
    if markdown:
        lines += [MARK, ""]
    lines += list(_head(component))
    for group, keys in _grouped(component.table):
        if group:
            lines += [f"## {_MARKUP.sub(_ESCAPED, group) if markdown else group}", ""]
        for key in keys:
            lines += _key_lines(key, component.table, "###" if group else "##", markdown)
    return "\n".join(lines).rstrip() + "\n"


def _head(component: Component) -> Iterator[str]:
    if component.kind == FRAMEWORK:
        yield from _FRAMEWORK_HEADS[component.name]
        yield ""
        return
    if not component.named_by:
        yield "The keys of the worker's properties file. What is below `producer.`, `consumer.`, `admin.` goes to the Kafka"
        yield "clients: see [standalone.md](../standalone.md#client-settings)."
        if component.name == DISTRIBUTED_WORKER:
            yield "Below `config.storage.`, `offset.storage.` and `status.storage.` there may be settings of these topics, as"
            yield "`offset.storage.min.insync.replicas`, for the time they are made. More: [distributed.md](../distributed.md)."
        yield ""
        return
    yield f"{_sentence(component.kind)}. `{component.named_by}` may be any of:"
    yield ""
    yield from (f"- `{name}`" for name in component.names)
    yield ""
    if component.prefix:
        yield f"In a configuration its keys begin with `{component.prefix}`."
        if TYPE in component.table.keys:
            yield f"`{TYPE}` is filled in by the worker."
        yield ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _grouped(table: ConfigDef) -> Iterator[tuple[str | None, list[ConfigKey]]]:
    for group in (None, *table.groups):
        keys = [key for key in table.keys.values() if key.group == group and not key.internal]
        if keys:
            # Keys without a group come first, without a heading when there is nothing else.
            yield ("Keys" if group is None and table.groups else group), keys


def _key_lines(key: ConfigKey, table: ConfigDef, level: str, markdown: bool) -> list[str]:
    lines = [f"{level} `{key.name}`", "", _MARKUP.sub(_ESCAPED, key.doc) if markdown else key.doc, ""]
    default = table.default_text(key.name)
    shown = "must be given" if key.required else "default null" if default is None else f"default `{default}`"
    if default == "":
        shown = "default empty"
    lines.append(f"- {key.type.value.lower()}, {shown}, importance {key.importance.value.lower()}")
    if key.validator is not None:
        lines.append(f"- valid: {_code(_rule(key))}")
    if key.aliases:
        lines.append(f"- also read: {', '.join(f'`{alias}`' for alias in key.aliases)}")
    return [*lines, ""]


def _rule(key: ConfigKey) -> str:
    text = str(key.validator)
    # A plain function has no rule to show but that there is one.
    return "checked by the connector" if text.startswith("<function") else text


def _code(text: str) -> str:
    return f"`{text}`" if text.startswith(("[", "(")) else text


def _index(found: Iterable[Component]) -> str:
    lines = ["# Reference", "", MARK, "", "Every key of every component, from the tables that parse and check it.", ""]
    lines += ["| page | what | named in configurations |", "| --- | --- | --- |"]
    for one in found:
        names = ", ".join(f"`{name}`" for name in one.names) or "-"
        lines.append(f"| [{one.title}]({one.page}) | {one.kind} | {names} |")
    return "\n".join(lines) + "\n"


def as_json(component: Component) -> dict[str, object]:
    """A component and its keys as plain values."""
    return {
        "name": component.name,
        "kind": component.kind,
        "names": list(component.names),
        "prefix": component.prefix,
        "keys": [
            {
                "name": key.name,
                "type": key.type.value,
                "required": key.required,
                "default": component.table.default_text(key.name),
                "importance": key.importance.value,
                "group": key.group,
                "valid": None if key.validator is None else _rule(key),
                "aliases": list(key.aliases),
                "documentation": key.doc,
            }
            for key in component.table.keys.values()
            if not key.internal
        ],
    }

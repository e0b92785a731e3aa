"""The task configs that a connector generates, as they are stored, and the class of its tasks."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.connector import Connector, SinkConnector
from connect.errors import ConnectError
from connect.sink import SinkTask
from connect.source import SourceTask
from worker.config.resolved_config import restore_references
from worker.executor import ConnectorSpec

log = logging.getLogger(__name__)

_ENFORCE = "tasks.max.enforce"
TASK_CLASS = "task.class"


def generated_task_configs(connector: Connector, spec: ConnectorSpec, class_name: str) -> list[dict[str, str]]:
    """Requests the task configs of a started connector. Raises what it raises, and ConnectError if there are too many."""
    max_tasks = int(spec.config.get("tasks.max", "1"))
    configs = _check_configs(connector.task_configs(max_tasks), class_name)
    if len(configs) > max_tasks:
        text = (
            f"The connector {spec.name} has generated {len(configs)} tasks, which is greater than "
            f"{max_tasks}, the maximum number of tasks it is configured to create."
        )
        if parse_value(_ENFORCE, spec.config.get(_ENFORCE, "true"), ConfigType.BOOLEAN):
            raise ConnectError(text)
        log.warning("%s They start nevertheless, because %s=false", text, _ENFORCE)
    added = {TASK_CLASS: shown_task_class(class_name, connector.task_class())}
    if isinstance(connector, SinkConnector):
        added |= {key: spec.config[key] for key in ("topics", "topics.regex") if spec.config.get(key)}
    return [restore_references({**config, **added}, spec.given, spec.config) for config in configs]


def _check_configs(configs: Any, class_name: str) -> list[Mapping[str, str]]:
    """Checks the types of what a connector returned. Raises ConnectError, without values."""
    if isinstance(configs, str | Mapping) or not isinstance(configs, Iterable):
        found = type(configs).__name__
        raise ConnectError(f"task_configs() of {class_name} must return a list of dicts, one for each task, but returned {found}")
    listed = list(configs)
    for number, config in enumerate(listed):
        if not isinstance(config, Mapping):
            found = type(config).__name__
            raise ConnectError(
                f"task_configs() of {class_name} must return dicts, but what it returned for task {number} is {found}"
            )
        for key, value in config.items():
            if not isinstance(key, str):
                raise ConnectError(
                    f"task_configs() of {class_name} must return dicts of strings, but task {number} has the key {key!r}, "
                    f"which is {type(key).__name__}"
                )
            if not isinstance(value, str):
                raise ConnectError(
                    f"task_configs() of {class_name} must return dicts of strings, but {key} of task {number} is "
                    f"{type(value).__name__}. Write str(...) around it"
                )
    return listed


def shown_task_class(class_name: str, task_class: type) -> str:
    """The class name shown for tasks: a Java name for Apache's connectors, else the Python path."""
    if class_name.startswith("org.apache.kafka.connect.") and class_name.endswith("Connector"):
        return f"{class_name.removesuffix('Connector')}Task"
    return f"{task_class.__module__}:{task_class.__qualname__}"


def find_task_class(connector_class: type[Connector], config: Mapping[str, str]) -> type[SourceTask] | type[SinkTask]:
    """The class of a task: the one its config names, because the connector that chose it may run elsewhere. If that is a Java
    name, or cannot be imported, a new connector object is asked."""
    named = _import_path(config.get(TASK_CLASS, ""))
    if isinstance(named, type) and issubclass(named, SourceTask | SinkTask):
        return named
    return connector_class().task_class()


def _import_path(path: str) -> Any:
    module, colon, names = path.partition(":")
    if not colon:
        return None
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return found

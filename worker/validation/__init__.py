"""Validates connector configurations and lists plugins: everything behind REST's ``/connector-plugins``.

Configurations are checked in four packages, each on top of the one before:

- :mod:`connect.config` checks one value against its ConfigKey.
- This package checks a whole connector configuration like Apache and builds the response of REST validation
  (:func:`~worker.validation.validate.validate`). It combines the framework's keys (``connector_keys``, ``framework_def``,
  ``transform_keys``), the connector's own validation, its converters and client overrides (``component_validation``), and checks
  across keys (``sink_checks``, ``cluster_checks``). Both herders call it through
  :class:`~worker.validation.config_validator.ConfigValidator` before they use a configuration.
- :mod:`worker.config` parses worker configurations; ``startup_warnings`` finds their unknown and unused keys.
- :mod:`worker.lint` runs all of this offline on files, and adds warnings that validation has no place for.
"""

from worker.validation.cluster_checks import cluster_check
from worker.validation.framework_def import plain_framework_def
from worker.validation.plugin_index import CONNECTOR_TYPES, DiscoveredPluginIndex, Plugin, PluginIndex, PluginType
from worker.validation.plugin_listing import list_plugins, plugin_config
from worker.validation.response import create_error_message
from worker.validation.sink_checks import dlq_topic, parse_topics
from worker.validation.validate import WorkerCheck, connector_type, new_connector, validate

__all__ = [
    "CONNECTOR_TYPES",
    "DiscoveredPluginIndex",
    "Plugin",
    "PluginIndex",
    "PluginType",
    "WorkerCheck",
    "cluster_check",
    "connector_type",
    "create_error_message",
    "dlq_topic",
    "list_plugins",
    "new_connector",
    "parse_topics",
    "plain_framework_def",
    "plugin_config",
    "validate",
]

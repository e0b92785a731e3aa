"""Validation of connector configurations: the tables of the framework and the answers that REST gives."""

from worker.validation.cluster_checks import cluster_check
from worker.validation.discovered_plugins import DiscoveredCatalogue
from worker.validation.framework_keys import plain_def
from worker.validation.plugin_catalog import CONNECTORS, Catalogue, Kind, Plugin
from worker.validation.plugin_listing import plugin_config, plugin_list
from worker.validation.provider_references import show_references
from worker.validation.response import create_error_message
from worker.validation.sink_checks import dlq_topic, topics_of
from worker.validation.validate import Check, kind_of, new_connector, validate

__all__ = [
    "CONNECTORS",
    "Catalogue",
    "Check",
    "DiscoveredCatalogue",
    "Kind",
    "Plugin",
    "cluster_check",
    "create_error_message",
    "dlq_topic",
    "kind_of",
    "new_connector",
    "plain_def",
    "plugin_config",
    "plugin_list",
    "show_references",
    "topics_of",
    "validate",
]

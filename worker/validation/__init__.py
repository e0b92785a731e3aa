"""Validation of connector configurations: the tables of the framework and the answers that REST gives."""

from worker.validation.answer import create_error_message
from worker.validation.catalogue import CONNECTORS, Catalogue, Kind, Plugin
from worker.validation.checks import dlq_topic, topics_of
from worker.validation.cluster import cluster_check
from worker.validation.discovered import DiscoveredCatalogue
from worker.validation.framework import plain_def
from worker.validation.listing import plugin_config, plugin_list
from worker.validation.references_shown import show_references
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

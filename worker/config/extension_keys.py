"""Keys that Apache's workers do not have: restarts of what failed, a directory of connectors, config history."""

from __future__ import annotations

from dataclasses import replace

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import at_least

_DEFAULT = "A worker's key of this name is the default for its connectors."

RESTART_KEYS = (
    ConfigKey(
        "errors.restart.max.attempts",
        ConfigType.INT,
        0,
        importance=Importance.MEDIUM,
        doc=(
            "How often a connector or task that is FAILED is restarted by itself before it stays FAILED. 0, which is the "
            f"default, is what Apache's workers do: never. -1 is without end. {_DEFAULT}"
        ),
        group="Error Handling",
        order=11,
        width=Width.SHORT,
        display_name="Restarts of What Failed",
        validator=at_least(-1),
    ),
    ConfigKey(
        "errors.restart.delay.initial.ms",
        ConfigType.LONG,
        1000,
        importance=Importance.LOW,
        doc=(
            "How long the first of these restarts is waited for. Each further one takes twice as long, less up to a fifth at "
            f"random. {_DEFAULT}"
        ),
        group="Error Handling",
        order=12,
        width=Width.MEDIUM,
        display_name="First Delay of a Restart",
        validator=at_least(1),
    ),
    ConfigKey(
        "errors.restart.delay.max.ms",
        ConfigType.LONG,
        60_000,
        importance=Importance.LOW,
        doc=f"The longest of these delays. {_DEFAULT}",
        group="Error Handling",
        order=13,
        width=Width.MEDIUM,
        display_name="Longest Delay of a Restart",
        validator=at_least(1),
    ),
    ConfigKey(
        "errors.restart.reset.after.ms",
        ConfigType.LONG,
        600_000,
        importance=Importance.LOW,
        doc=f"How long an instance must have run well for its restarts to be forgotten. {_DEFAULT}",
        group="Error Handling",
        order=14,
        width=Width.MEDIUM,
        display_name="Time That Forgets Restarts",
        validator=at_least(0),
    ),
)
"""For connectors; the first match of connector, worker and default counts."""

CONNECTORS_DIR = "connectors.dir"
HISTORY_SIZE = "config.history.size"
HISTORY_TOPIC = "config.history.topic"

OPERATION_KEYS = (
    *(replace(key, doc=key.doc.removesuffix(f" {_DEFAULT}"), group=None, order=-1) for key in RESTART_KEYS),
    ConfigKey(
        CONNECTORS_DIR,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=(
            "A directory of connector files (.properties and .json, as on the command line of a standalone worker) that say "
            "which connectors there are to be: they are created, changed and deleted as the files are. In a cluster the "
            "leader's directory counts."
        ),
    ),
    ConfigKey(
        HISTORY_SIZE,
        ConfigType.INT,
        20,
        importance=Importance.LOW,
        doc="How many configurations of each connector are kept, the present one included, to look at and to roll back to.",
        validator=at_least(1),
    ),
)
"""For workers of both modes."""

CLUSTER_KEYS = (
    ConfigKey(
        HISTORY_TOPIC,
        ConfigType.STRING,
        None,
        importance=Importance.LOW,
        doc=(
            "The topic in which they are kept; by default the name of config.storage.topic with -history at its end. Empty: in "
            "memory only. It has the replication factor of config.storage.topic."
        ),
    ),
)
"""For workers of a cluster."""

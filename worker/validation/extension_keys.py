"""Keys of a connector that Apache's workers do not have.

Validation over REST does not list them, so that its answer stays Apache's; ``sluice lint`` and the docs know them from here.
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance, Width
from connect.config.types import ConfigType
from connect.strict import STRICT_KEY
from worker.config.extension_keys import RESTART_KEYS
from worker.config.isolation import ISOLATION_KEYS
from worker.validation.plugin_catalog import Kind

SOURCE_DEAD_LETTER_KEYS = (
    ConfigKey(
        "errors.deadletterqueue.source.topic.name",
        ConfigType.STRING,
        "",
        importance=Importance.MEDIUM,
        doc=(
            "The topic that a source connector writes records to that failed in a transformation, a converter or the producer, "
            "as JSON and with headers that say why. Empty, which is the default, for none. (Apache's workers have a dead letter "
            "queue for sinks only.)"
        ),
        group="Error Handling",
        order=9,
        width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Name of a Source",
    ),
    ConfigKey(
        "errors.deadletterqueue.source.topic.replication.factor",
        ConfigType.SHORT,
        3,
        importance=Importance.MEDIUM,
        doc="Replication factor used to create the dead letter queue topic of a source connector when it doesn't already exist.",
        group="Error Handling",
        order=10,
        width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Replication Factor of a Source",
    ),
)

OWN_KEYS: tuple[ConfigKey, ...] = (STRICT_KEY, *SOURCE_DEAD_LETTER_KEYS, *RESTART_KEYS, *ISOLATION_KEYS)


def own_keys(kind: Kind) -> tuple[ConfigKey, ...]:
    """Those of them that sinks or sources have."""
    return OWN_KEYS if kind is Kind.SOURCE else tuple(key for key in OWN_KEYS if key not in SOURCE_DEAD_LETTER_KEYS)

"""Keys of the web page. Not in Apache's worker."""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType

UI_ENABLED = "ui.enabled"
UI_READ_ONLY = "ui.read.only"

UI_KEYS = (
    ConfigKey(
        UI_ENABLED,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.LOW,
        doc="Whether this worker serves the web page at /ui on its REST listeners.",
    ),
    ConfigKey(
        UI_READ_ONLY,
        ConfigType.BOOLEAN,
        False,
        importance=Importance.LOW,
        doc=(
            "Whether the web page only shows: it has no buttons that change anything, and the worker refuses changes that come "
            "from the page. Other clients of REST may still make changes."
        ),
    ),
)
"""For workers of both modes."""

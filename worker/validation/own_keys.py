"""Keys of a connector that Apache's workers do not have.

Validation over REST does not list them, so that its answer stays Apache's; ``sluice lint`` and the docs know them from here.
"""

from __future__ import annotations

from connect.config.definition import ConfigKey
from connect.strict import STRICT_KEY

OWN_KEYS: tuple[ConfigKey, ...] = (STRICT_KEY,)
